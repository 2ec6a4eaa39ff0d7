//! The program `mptune-agent`; its code is in the library.

#[cfg(target_os = "linux")]
fn main() {
    std::process::exit(mptune_agent::main(std::env::args_os().skip(1)));
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("mptune-agent: needs Linux");
    std::process::exit(1);
}
