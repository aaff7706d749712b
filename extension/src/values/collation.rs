//! Collations: which of them order texts as their bytes, and what makes sort keys of texts.
//!
//! What the C library has of a collation is behind structures of the server that each of its versions has otherwise, so
//! the locale that the catalog names is opened here once more.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::MaybeUninit;

use pgrx::pg_sys::{self, Datum, Oid};

use crate::pg::ffi;
use crate::pg::ffi::pfree;
use crate::pg::per_backend::PerBackend;

/// Whether a collation orders texts as their bytes.
///
/// # Safety
/// May raise.
pub unsafe fn is_byte_order(collation: Oid) -> bool {
    if collation == Oid::INVALID {
        return false;
    }
    // SAFETY: catalog lookups.
    unsafe { is_c(collation) || Locale::of(collation).is_some_and(|locale| !locale.has_rules()) }
}

/// Whether the server compares texts as their bytes.
unsafe fn is_c(collation: Oid) -> bool {
    // SAFETY: the server's functions, with their signatures of this version.
    unsafe {
        #[cfg(not(feature = "since_18"))]
        return ffi::lc_collate_is_c(collation);
        #[cfg(feature = "since_18")]
        return (*ffi::pg_newlocale_from_collation(collation)).collate_is_c;
    }
}

/// What makes sort keys under a collation.
#[derive(Clone, Copy)]
pub enum SortKeys {
    /// The C library.
    Libc(Locale),
    /// The server, by ICU.
    #[cfg(not(feature = "pg15"))]
    Server(*const ffi::Locale),
}

impl SortKeys {
    /// Those of a collation, if there are any. 15 makes none with ICU but their first 8 bytes.
    ///
    /// # Safety
    /// May raise.
    pub unsafe fn of(collation: Oid) -> Option<SortKeys> {
        // SAFETY: catalog lookups, and the server's functions with their signatures of this version. Its locales stay
        // where they are as long as the process lives.
        unsafe {
            #[cfg(not(feature = "pg15"))]
            if collation != Oid::INVALID && !is_c(collation) {
                let locale = ffi::pg_newlocale_from_collation(collation);
                if !locale.is_null() && ffi::pg_strxfrm_prefix_enabled(locale) {
                    return Some(SortKeys::Server(locale));
                }
            }
            Locale::of(collation).map(SortKeys::Libc)
        }
    }

    /// Whether what is no letter and no digit decides nothing but ties, as far as one example tells.
    pub fn skip_marks(self) -> bool {
        match self {
            // SAFETY: two C strings, and an open locale.
            SortKeys::Libc(locale) => unsafe { strcoll_l(c"a-b".as_ptr(), c"aa".as_ptr(), locale.0) > 0 },
            #[cfg(not(feature = "pg15"))]
            SortKeys::Server(_) => false,
        }
    }

    /// Fills `out` with the beginning of a text's sort key, and returns how many bytes it has. May raise.
    pub fn put(self, text: &[u8], out: &mut [u8]) -> usize {
        match self {
            SortKeys::Libc(locale) => locale.sort_key(text, out),
            #[cfg(not(feature = "pg15"))]
            // SAFETY: room for as many bytes as are said, a text of as many, and a locale of the server's.
            SortKeys::Server(locale) => unsafe {
                let (to, from) = (out.as_mut_ptr().cast(), text.as_ptr().cast());
                ffi::pg_strnxfrm_prefix(to, out.len(), from, text.len(), locale).min(out.len())
            },
        }
    }
}

/// A locale of the C library's. It stays open as long as the process lives.
#[derive(Clone, Copy)]
pub struct Locale(*mut c_void);

/// Locales remembered at a time.
const REMEMBERED: usize = 32;

/// The locales of some collations.
struct Locales {
    /// Null where there is none, or none that could be opened.
    known: [(Oid, *mut c_void); REMEMBERED],
    /// The place of the next one.
    next: usize,
}

static LOCALES: PerBackend<UnsafeCell<Locales>> =
    PerBackend::new(UnsafeCell::new(Locales { known: [(Oid::INVALID, core::ptr::null_mut()); REMEMBERED], next: 0 }));

/// Bytes of a text that a sort key is made of, at most: more than its first bytes can depend on where no key of a whole
/// text has ended.
const MOST_TEXT: usize = 160;
/// Room for the sort key of those.
const MOST_KEY: usize = 4096;
/// What is between two levels of a sort key.
const BETWEEN_LEVELS: u8 = 1;

impl Locale {
    /// The locale whose rules a collation is, if they are the C library's.
    ///
    /// # Safety
    /// May raise.
    pub unsafe fn of(collation: Oid) -> Option<Locale> {
        // SAFETY: only this thread uses the table, and nothing below comes back here.
        unsafe {
            let locales = &mut *LOCALES.get();
            let found = locales.known.iter().find(|(of, _)| *of == collation).map(|(_, locale)| *locale);
            let locale = match found {
                Some(locale) => locale,
                None => {
                    let locale = open(collation);
                    locales.known[locales.next % REMEMBERED] = (collation, locale);
                    locales.next += 1;
                    locale
                }
            };
            (!locale.is_null()).then_some(Locale(locale))
        }
    }

    /// Whether it orders texts by rules of its own. glibc's `strcoll` is `strcmp` where there are none.
    fn has_rules(self) -> bool {
        // SAFETY: the locale is open. What is asked for is a number, which comes as if it were a pointer.
        cfg!(not(target_env = "gnu")) || unsafe { nl_langinfo_l(COLLATE_RULES, self.0) }.addr() as u32 != 0
    }

    /// Fills `out` with the beginning of a text's sort key, and returns how many bytes it has. A sort key that is less
    /// is a text's that is less, or so the C library's manual has it.
    pub fn sort_key(self, text: &[u8], out: &mut [u8]) -> usize {
        let part = &text[..text.len().min(MOST_TEXT)];
        let (mut terminated, mut key) = ([0; MOST_TEXT + 1], [MaybeUninit::<u8>::uninit(); MOST_KEY]);
        terminated[..part.len()].copy_from_slice(part);
        // SAFETY: a text that ends with a zero byte, room for as many bytes as are said, and an open locale.
        let length = unsafe { strxfrm_l(key.as_mut_ptr().cast(), terminated.as_ptr().cast(), key.len(), self.0) };
        if length >= MOST_KEY {
            return 0;
        }
        // SAFETY: the key has been written, as long as was said.
        let key = unsafe { key[..length].assume_init_ref() };
        // What is behind the first level depends on all of the text.
        let key = match key.iter().position(|&byte| byte == BETWEEN_LEVELS) {
            Some(end) if part.len() < text.len() => &key[..end],
            _ => key,
        };
        let kept = key.len().min(out.len());
        out[..kept].copy_from_slice(&key[..kept]);
        kept
    }
}

/// `LC_COLLATE_MASK` and `LC_CTYPE_MASK`.
const MASK: c_int = 1 << 3 | 1 << 0;
/// `_NL_COLLATE_NRULES`, the first of what `LC_COLLATE` has.
const COLLATE_RULES: c_int = 3 << 16;

unsafe extern "C" {
    fn newlocale(mask: c_int, name: *const c_char, base: *mut c_void) -> *mut c_void;
    fn nl_langinfo_l(item: c_int, locale: *mut c_void) -> *mut c_char;
    fn strcoll_l(a: *const c_char, b: *const c_char, locale: *mut c_void) -> c_int;
    fn strxfrm_l(to: *mut c_char, from: *const c_char, size: usize, locale: *mut c_void) -> usize;
}

/// The provider of collations that is the C library.
const LIBC: u8 = b'c';
/// The provider of the collation that is the database's.
const DEFAULT: u8 = b'd';

/// Opens the locale of a collation, or returns null.
unsafe fn open(collation: Oid) -> *mut c_void {
    // SAFETY: catalog lookups, by the columns of the tables that they are made in.
    unsafe {
        let collations = pg_sys::SysCacheIdentifier::COLLOID as c_int;
        let databases = pg_sys::SysCacheIdentifier::DATABASEOID as c_int;
        let of = [pg_sys::Anum_pg_collation_collprovider, pg_sys::Anum_pg_collation_collcollate];
        let of_database = [pg_sys::Anum_pg_database_datlocprovider, pg_sys::Anum_pg_database_datcollate];
        let locale = look_up(collations, collation, of);
        match locale.provider {
            DEFAULT => open_named(look_up(databases, pg_sys::MyDatabaseId, of_database)),
            _ => open_named(locale),
        }
    }
}

/// What the catalog says of a locale: its provider, and its name in memory of the server's, or null.
struct Named {
    provider: u8,
    name: *mut c_char,
}

unsafe fn look_up(cache: c_int, oid: Oid, [provider, name]: [u32; 2]) -> Named {
    // SAFETY: a tuple that is found is copied from before it is given back; the columns are a character and a text.
    unsafe {
        let tuple = ffi::SearchSysCache1(cache, Datum::from(oid));
        if tuple.is_null() {
            return Named { provider: 0, name: core::ptr::null_mut() };
        }
        let mut is_null = false;
        let provider = ffi::SysCacheGetAttr(cache, tuple, provider as i16, &mut is_null).value() as u8;
        let name = ffi::SysCacheGetAttr(cache, tuple, name as i16, &mut is_null);
        let name = if is_null { core::ptr::null_mut() } else { pg_sys::text_to_cstring(name.cast_mut_ptr()) };
        ffi::ReleaseSysCache(tuple);
        Named { provider, name }
    }
}

unsafe fn open_named(Named { provider, name }: Named) -> *mut c_void {
    if name.is_null() {
        return name.cast();
    }
    // SAFETY: a C string of the server's memory, which is given back.
    unsafe {
        let is_libc = provider == LIBC && !CStr::from_ptr(name).is_empty();
        let locale = if is_libc { newlocale(MASK, name, core::ptr::null_mut()) } else { core::ptr::null_mut() };
        pfree(name.cast());
        locale
    }
}
