//! The few functions of libbpf that register a congestion control and list the registered ones, behind safe signatures.
//!
//! Beside `sys`, `signals` and `seccomp` the only file of the crate with `unsafe`. The library is the host's own, found when it is
//! needed (dlopen(3)): the agent builds and otherwise runs without it, and one that is linked statically never
//! has it. Not a BPF library, and no policy: it registers what it is given, through a link that lives as long as
//! its descriptor.

#![allow(unsafe_code)]

mod error;

pub use self::error::Error;

use self::error::{LIBRARY, MESSAGES, check, last_error, line};
use serde::Serialize;
use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::ptr::{self, NonNull};

/// Another file instead, for tests.
const VARIABLE: &str = "MPTUNE_LIBBPF";
/// `BPF_MAP_TYPE_LPM_TRIE`, `BPF_MAP_TYPE_STRUCT_OPS` and `BPF_STRUCT_OPS` (include/uapi/linux/bpf.h).
const MAP_TYPE_LPM_TRIE: u32 = 11;
const MAP_TYPE_STRUCT_OPS: c_int = 26;
const ATTACH_STRUCT_OPS: c_int = 44;
/// `BPF_F_LINK`: the map is registered as long as a link of it is held (Linux 6.4).
const F_LINK: u32 = 1 << 13;
/// `BPF_LINK_TYPE_STRUCT_OPS` and `BPF_PROG_TYPE_STRUCT_OPS`.
const LINK_TYPE_STRUCT_OPS: u32 = 9;
const PROG_TYPE_STRUCT_OPS: u32 = 27;
/// Messages of libbpf up to this level are recorded: warnings.
const RECORDED_LEVEL: c_int = 0;
/// Room for a message, bytes: enough for the verifier's log of a refused program.
const MESSAGE_BYTES: usize = 1 << 22;
/// Linked statically: a C library of its own cannot load libraries made for another one.
const IS_STATIC: bool = cfg!(target_feature = "crt-static");

/// A congestion control (or another struct_ops map) that a link keeps registered.
#[derive(Debug, Serialize)]
pub struct Registered {
    /// Its name in the kernel.
    pub name: String,
    /// Number of the link.
    pub link: u32,
    /// Number of its type information, which its programs share.
    #[serde(skip)]
    btf: u32,
}

/// The same with its programs.
#[derive(Debug, Serialize)]
pub struct WithHooks {
    #[serde(flatten)]
    registered: Registered,
    hooks: Vec<Hook>,
}

/// One program of a congestion control.
#[derive(Debug, Clone, Serialize)]
pub struct Hook {
    /// Its name.
    pub name: String,
    /// Calls and their run time, nanoseconds, while `kernel.bpf_stats_enabled` was on.
    pub calls: u64,
    /// See `calls`.
    pub ns: u64,
}

/// The beginning of `struct bpf_link_info`.
#[derive(Default)]
#[repr(C)]
struct LinkInfo {
    kind: u32,
    id: u32,
    prog_id: u32,
    _pad: u32,
    map_id: u32,
}

/// The beginning of `struct bpf_map_info`.
#[derive(Default)]
#[repr(C)]
struct MapInfo {
    kind: u32,
    id: u32,
    key_bytes: u32,
    value_bytes: u32,
    _before_name: [u32; 2],
    name: [u8; 16],
    _before_btf: [u64; 3],
    btf: u32,
}

/// The beginning of `struct bpf_prog_info`.
#[derive(Default)]
#[repr(C)]
struct ProgramInfo {
    kind: u32,
    id: u32,
    _before_name: [u64; 7],
    name: [u8; 16],
    _before_btf: [u64; 6],
    btf: u32,
    _before_times: [u32; 15],
    ns: u64,
    calls: u64,
}

/// Plain data that the kernel fills.
trait Info: Default {}
impl Info for LinkInfo {}
impl Info for MapInfo {}
impl Info for ProgramInfo {}

/// Opaque structures of libbpf.
enum Object {}
enum Map {}
enum Link {}

type Print = extern "C" fn(c_int, *const c_char, *mut c_void) -> c_int;

unsafe extern "C" {
    /// stdio.h; the last argument is a `va_list`, which x86-64 and 64-bit ARM pass as a pointer.
    fn vsnprintf(
        to: *mut c_char,
        room: usize,
        form: *const c_char,
        arguments: *mut c_void,
    ) -> c_int;
}

/// libbpf, loaded.
pub struct Libbpf {
    /// Never closed: libbpf holds a pointer to `record` and may call it as long as it is loaded.
    handle: NonNull<c_void>,
}

impl Libbpf {
    /// Loads it.
    ///
    /// # Errors
    /// It is missing, or this program is linked statically.
    pub fn open() -> Result<Self, Error> {
        if IS_STATIC {
            return Err(Error::Static);
        }
        let library = std::env::var_os(VARIABLE).unwrap_or_else(|| OsString::from(LIBRARY));
        let name = CString::new(library.clone().into_vec())?;
        // SAFETY: dlopen reads a text that ends; libbpf's constructors have no demands.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        NonNull::new(handle).map(|handle| Self { handle }).ok_or(Error::Missing(library))
    }

    /// Loads an object and registers its congestion control `name`, which stays registered until the
    /// descriptor is closed, however that happens; child processes do not inherit it.
    ///
    /// # Errors
    /// The object is wrong, or the kernel refuses it.
    pub fn register(&self, content: &[u8], name: &str) -> Result<OwnedFd, Error> {
        let functions = Functions::of(self)?;
        MESSAGES.lock().expect("nothing panics with it").clear();
        // SAFETY: `record` has the type of libbpf_print_fn_t, and is there as long as the process.
        unsafe { (functions.libbpf_set_print)(record) };
        // SAFETY: libbpf reads the content, which outlives the object; no options are given.
        let opened = unsafe {
            (functions.bpf_object__open_mem)(content.as_ptr().cast(), content.len(), ptr::null())
        };
        let opened =
            NonNull::new(opened).ok_or_else(|| Error::with_message("opening", last_error()))?;
        let object = Opened { functions: &functions, object: opened };
        let map = object.struct_ops(name)?;
        // SAFETY: the map is one of the object, which is open until the end of this function, and is not
        // loaded yet.
        let loaded = unsafe {
            (functions.bpf_map__set_map_flags)(map, F_LINK);
            (functions.bpf_object__load)(opened.as_ptr())
        };
        check("loading", loaded)?;
        object.link(map)
    }

    /// Every congestion control (and other struct_ops map) that a link keeps registered, with that link, whose
    /// holder keeps it registered too.
    ///
    /// # Errors
    /// The kernel lists none.
    pub fn links(&self) -> Result<Vec<(Registered, OwnedFd)>, Error> {
        let functions = Functions::of(self)?;
        let mut links = Vec::new();
        for (number, link) in
            every(functions.bpf_link_get_next_id, functions.bpf_link_get_fd_by_id)?
        {
            let info: LinkInfo = functions.info(&link)?;
            if info.kind != LINK_TYPE_STRUCT_OPS || info.map_id == 0 {
                continue;
            }
            // SAFETY: it takes a number.
            let map = unsafe { (functions.bpf_map_get_fd_by_id)(info.map_id) };
            if map < 0 {
                continue; // The link has gone, and its map with it.
            }
            let map: MapInfo = functions.info(&owned(map))?;
            links.push((Registered { name: text(&map.name), link: number, btf: map.btf }, link));
        }
        Ok(links)
    }

    /// The map by longest prefixes of this name of a registered congestion control; none if it has none with keys and values of these sizes.
    ///
    /// # Errors
    /// The kernel lists none.
    pub fn prefix_map<const KEY: usize, const VALUE: usize>(
        &self,
        registered: &str,
        name: &str,
    ) -> Result<Option<PrefixMap<KEY, VALUE>>, Error> {
        let functions = Functions::of(self)?;
        let mut links = self.links()?.into_iter();
        let Some((owner, _)) = links.find(|(one, _)| one.name == registered) else {
            return Ok(None);
        };
        for (_, map) in every(functions.bpf_map_get_next_id, functions.bpf_map_get_fd_by_id)? {
            let info: MapInfo = functions.info(&map)?;
            let fits = (info.key_bytes as usize, info.value_bytes as usize) == (KEY, VALUE);
            let is_own = info.btf == owner.btf && text(&info.name) == name;
            if info.kind == MAP_TYPE_LPM_TRIE && is_own && fits {
                return Ok(Some(PrefixMap { functions, map }));
            }
        }
        Ok(None)
    }

    /// The same with their programs, for which every BPF program of the machine is opened.
    ///
    /// # Errors
    /// The kernel lists none.
    pub fn registered(&self) -> Result<Vec<WithHooks>, Error> {
        let all = Functions::of(self)?.hooks()?;
        let with_hooks = |(registered, _): (Registered, OwnedFd)| {
            let own = all.iter().filter(|(btf, _)| *btf == registered.btf);
            WithHooks { hooks: own.map(|(_, hook)| hook.clone()).collect(), registered }
        };
        Ok(self.links()?.into_iter().map(with_hooks).collect())
    }

    /// Makes a file in a BPF file system that holds what a descriptor holds.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn pin(&self, held: &OwnedFd, file: &Path) -> Result<(), Error> {
        let functions = Functions::of(self)?;
        let path = CString::new(file.as_os_str().as_bytes())?;
        // SAFETY: the descriptor is open, and the path ends with a zero.
        let pinned = unsafe { (functions.bpf_obj_pin)(held.as_raw_fd(), path.as_ptr()) };
        if pinned < 0 { Err(Error::last("pinning")) } else { Ok(()) }
    }
}

/// A map by longest prefixes whose keys and values have these sizes, bytes.
pub struct PrefixMap<const KEY: usize, const VALUE: usize> {
    functions: Functions,
    map: OwnedFd,
}

impl<const KEY: usize, const VALUE: usize> PrefixMap<KEY, VALUE> {
    /// Writes these entries, and then removes all others.
    ///
    /// # Errors
    /// The kernel refuses one.
    pub fn replace(&self, entries: &[([u8; KEY], [u8; VALUE])]) -> Result<(), Error> {
        let map = self.map.as_raw_fd();
        for (key, value) in entries {
            // SAFETY: the sizes are those of the map, which is open; the kernel copies both.
            let status = unsafe {
                let (key, value) = (key.as_ptr().cast(), value.as_ptr().cast());
                (self.functions.bpf_map_update_elem)(map, key, value, 0)
            };
            if status < 0 {
                return Err(Error::last("writing to a map"));
            }
        }
        for key in self.keys() {
            if !entries.iter().any(|(kept, _)| *kept == key) {
                // SAFETY: as above. One that is gone is no failure.
                unsafe { (self.functions.bpf_map_delete_elem)(map, key.as_ptr().cast()) };
            }
        }
        Ok(())
    }

    /// The keys of all entries.
    fn keys(&self) -> Vec<[u8; KEY]> {
        let mut keys: Vec<[u8; KEY]> = Vec::new();
        let mut next = [0; KEY];
        loop {
            let last = keys.last().map_or(ptr::null(), |key| key.as_ptr().cast());
            // SAFETY: the sizes are those of the map; `last` is null or a key.
            let status = unsafe {
                let next = next.as_mut_ptr().cast();
                (self.functions.bpf_map_get_next_key)(self.map.as_raw_fd(), last, next)
            };
            if status < 0 || keys.contains(&next) {
                return keys;
            }
            keys.push(next);
        }
    }
}

/// Declares the functions, and looks up all of them together.
macro_rules! functions {
    ($(fn $name:ident($($argument:ty),*) $(-> $returned:ty)?;)*) => {
        /// The functions of libbpf that are used.
        #[allow(non_snake_case)] // the library's own names
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $returned)?,)*
        }

        impl Functions {
            fn of(library: &Libbpf) -> Result<Self, Error> {
                Ok(Self {
                    // SAFETY: the signatures are those of libbpf.h and bpf.h of libbpf 1.
                    $($name: unsafe {
                        std::mem::transmute::<
                            *mut c_void,
                            unsafe extern "C" fn($($argument),*) $(-> $returned)?,
                        >(symbol(library, concat!(stringify!($name), "\0"))?)
                    },)*
                })
            }
        }
    };
}

functions! {
    fn libbpf_set_print(Print) -> *mut c_void;
    fn bpf_object__open_mem(*const c_void, usize, *const c_void) -> *mut Object;
    fn bpf_object__next_map(*const Object, *const Map) -> *mut Map;
    fn bpf_object__load(*mut Object) -> c_int;
    fn bpf_object__close(*mut Object);
    fn bpf_map__type(*const Map) -> c_int;
    fn bpf_map__name(*const Map) -> *const c_char;
    fn bpf_map__set_map_flags(*mut Map, u32) -> c_int;
    fn bpf_map__attach_struct_ops(*const Map) -> *mut Link;
    fn bpf_map__fd(*const Map) -> c_int;
    fn bpf_link__fd(*const Link) -> c_int;
    fn bpf_link__disconnect(*mut Link);
    fn bpf_link__destroy(*mut Link) -> c_int;
    fn bpf_obj_pin(c_int, *const c_char) -> c_int;
    fn bpf_link_create(c_int, c_int, c_int, *const c_void) -> c_int;
    fn bpf_link_get_next_id(u32, *mut u32) -> c_int;
    fn bpf_link_get_fd_by_id(u32) -> c_int;
    fn bpf_map_get_next_id(u32, *mut u32) -> c_int;
    fn bpf_map_get_fd_by_id(u32) -> c_int;
    fn bpf_map_update_elem(c_int, *const c_void, *const c_void, u64) -> c_int;
    fn bpf_map_delete_elem(c_int, *const c_void) -> c_int;
    fn bpf_map_get_next_key(c_int, *const c_void, *mut c_void) -> c_int;
    fn bpf_prog_get_next_id(u32, *mut u32) -> c_int;
    fn bpf_prog_get_fd_by_id(u32) -> c_int;
    fn bpf_obj_get_info_by_fd(c_int, *mut c_void, *mut u32) -> c_int;
}

impl Functions {
    /// Every program of a struct_ops map, with the number of its type information.
    fn hooks(&self) -> Result<Vec<(u32, Hook)>, Error> {
        let mut hooks = Vec::new();
        for (_, program) in every(self.bpf_prog_get_next_id, self.bpf_prog_get_fd_by_id)? {
            let info: ProgramInfo = self.info(&program)?;
            if info.kind == PROG_TYPE_STRUCT_OPS {
                let hook = Hook { name: text(&info.name), calls: info.calls, ns: info.ns };
                hooks.push((info.btf, hook));
            }
        }
        Ok(hooks)
    }

    fn info<T: Info>(&self, object: &OwnedFd) -> Result<T, Error> {
        let mut info = T::default();
        let mut size = u32::try_from(size_of::<T>()).expect("a small struct");
        // SAFETY: the kernel writes at most `size` bytes of plain data there.
        let status = unsafe {
            let place = ptr::from_mut(&mut info).cast();
            (self.bpf_obj_get_info_by_fd)(object.as_raw_fd(), place, &raw mut size)
        };
        if status < 0 { Err(Error::last("object info")) } else { Ok(info) }
    }
}

/// Numbers and descriptors of every object of a kind that still exists.
fn every(
    next: unsafe extern "C" fn(u32, *mut u32) -> c_int,
    open: unsafe extern "C" fn(u32) -> c_int,
) -> Result<Vec<(u32, OwnedFd)>, Error> {
    let (mut objects, mut number) = (Vec::new(), 0);
    // SAFETY: both take a number; the following one is written to `number`.
    while unsafe { next(number, &raw mut number) } == 0 {
        // SAFETY: as above.
        let descriptor = unsafe { open(number) };
        if descriptor >= 0 {
            objects.push((number, owned(descriptor)));
        }
    }
    match last_error() {
        libc::ENOENT => Ok(objects),
        _ => Err(Error::last("listing BPF objects")),
    }
}

/// A name that ends with a zero or with its room.
fn text(name: &[u8]) -> String {
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}

/// The address of a function; `name` ends with a zero.
fn symbol(library: &Libbpf, name: &'static str) -> Result<*mut c_void, Error> {
    if IS_STATIC {
        return Err(Error::Static);
    }
    // SAFETY: the handle is open, and the name ends with a zero.
    let address = unsafe { libc::dlsym(library.handle.as_ptr(), name.as_ptr().cast()) };
    if address.is_null() {
        return Err(Error::Function(name.trim_end_matches('\0')));
    }
    Ok(address)
}

/// An object, closed when it goes out of scope; what a link's descriptor holds stays registered.
struct Opened<'a> {
    functions: &'a Functions,
    object: NonNull<Object>,
}

impl Opened<'_> {
    /// The only map of an object with a congestion control.
    fn struct_ops(&self, name: &str) -> Result<*mut Map, Error> {
        let mut names = Vec::new();
        let mut last = None;
        let mut map = ptr::null_mut();
        loop {
            // SAFETY: the object is open, and the map is null or the last that it gave; names end with a
            // zero and live as long as the object.
            unsafe {
                map = (self.functions.bpf_object__next_map)(self.object.as_ptr(), map);
                if map.is_null() {
                    break;
                }
                if (self.functions.bpf_map__type)(map) == MAP_TYPE_STRUCT_OPS {
                    let text = CStr::from_ptr((self.functions.bpf_map__name)(map));
                    names.push(text.to_string_lossy().into_owned());
                    last = Some(map);
                }
            }
        }
        match last {
            Some(map) if names == [name] => Ok(map),
            _ => {
                let none = || "nothing".to_owned();
                let present = if names.is_empty() { none() } else { names.join(", ") };
                Err(Error::Object { expected: name.to_owned(), present })
            }
        }
    }

    /// Registers a loaded map.
    ///
    /// libbpf before 1.2 has no links of struct_ops: it fills the map and returns the map as its link.
    fn link(&self, map: *mut Map) -> Result<OwnedFd, Error> {
        let functions = self.functions;
        // SAFETY: the map is one of the object, which is open and loaded; the link is not used after it was
        // destroyed, and its descriptor is not closed by that, since it was disconnected.
        let (descriptor, of_map) = unsafe {
            let link = (functions.bpf_map__attach_struct_ops)(map);
            if link.is_null() {
                return Err(Error::with_message("registering", last_error()));
            }
            let descriptor = (functions.bpf_link__fd)(link);
            (functions.bpf_link__disconnect)(link);
            (functions.bpf_link__destroy)(link);
            (descriptor, (functions.bpf_map__fd)(map))
        };
        if descriptor != of_map {
            return Ok(owned(descriptor));
        }
        // SAFETY: the descriptor is the map's, which is open; there are no options.
        let created =
            unsafe { (functions.bpf_link_create)(descriptor, 0, ATTACH_STRUCT_OPS, ptr::null()) };
        check("registering", created).map(owned)
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        // SAFETY: it is open, and is not used any more.
        unsafe { (self.functions.bpf_object__close)(self.object.as_ptr()) };
    }
}

fn owned(descriptor: RawFd) -> OwnedFd {
    // SAFETY: libbpf has made it for us and has forgotten it.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// Records a message instead of printing it.
extern "C" fn record(level: c_int, form: *const c_char, arguments: *mut c_void) -> c_int {
    if level <= RECORDED_LEVEL {
        let mut text = vec![0u8; MESSAGE_BYTES];
        // SAFETY: libbpf gives a form with its arguments; at most the length of the vector is written, and
        // the text ends with a zero.
        unsafe { vsnprintf(text.as_mut_ptr().cast(), text.len(), form, arguments) };
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        if let Ok(mut messages) = MESSAGES.lock() {
            messages.push(line(&String::from_utf8_lossy(&text[..end])));
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_log_is_its_last_line_before_the_statistics() {
        let log = "libbpf: prog 'x': -- BEGIN PROG LOAD LOG --\n0: R1=ctx()\nno such thing\n\
                   processed 3 insns\n-- END PROG LOAD LOG --\n";
        assert_eq!(line(log), "the verifier reports: no such thing");
        assert_eq!(line("libbpf: failed to open it\n"), "failed to open it");
        assert_eq!(line(""), "");
    }

    #[test]
    fn what_is_no_object_is_refused_in_one_line() {
        let Ok(library) = Libbpf::open() else { return }; // a machine without it
        let refused = library.register(b"no object", "olia_000000").unwrap_err().to_string();
        assert!(refused.starts_with("opening: ") && !refused.contains('\n'), "{refused}");
    }

    #[test]
    fn a_name_that_is_taken_has_its_own_error_number() {
        let call = |number| Error::with_message("registering", number);
        assert!(call(libc::EEXIST).is_taken() && !call(libc::EINVAL).is_taken());
        assert!(!Error::Function("bpf_link_create").is_taken());
    }
}
