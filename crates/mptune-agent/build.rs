//! Links the program without its line tables: all of it goes to a host that has none. A static one goes to hosts with little
//! room, and has neither names nor tables for unwinding.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=static.ld");
    let features = std::env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo");
    let arguments = if features.split(',').any(|feature| feature == "crt-static") {
        format!(
            "--strip-all,--no-eh-frame-hdr,--build-id=none,-z,noseparate-code,-T,{here}/static.ld"
        )
    } else {
        "--strip-debug".to_owned()
    };
    println!("cargo:rustc-link-arg-bins=-Wl,{arguments}");
}
