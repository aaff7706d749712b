//! Reports, interrupts and critical sections.

use core::ffi::{CStr, c_char, c_int};
use core::fmt;

use fpbtree_engine::format::{Error, FORMAT};
use pgrx::pg_sys::{self, Relation};
use pgrx::{PgLogLevel, PgSqlErrorCode};

use super::ffi;

/// A line of a report, on the stack so that raising it leaves nothing behind. Longer text is cut.
pub struct Text {
    bytes: [u8; 512],
    length: usize,
}

impl Text {
    /// Writes the text of `format_args!`.
    pub fn new(text: fmt::Arguments<'_>) -> Text {
        let mut made = Text { bytes: [0; 512], length: 0 };
        // Cutting a long text is the only failure.
        let _ = fmt::write(&mut made, text);
        made
    }

    /// The text, as the server takes it.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.len() - 1 - self.length;
        let cut = text.floor_char_boundary(room);
        self.bytes[self.length..self.length + cut].copy_from_slice(&text.as_bytes()[..cut]);
        self.length += cut;
        if cut == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// A relation's name in a report.
pub struct Name(pub Relation);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: an open relation has a name.
        NameText(unsafe { &(*(*self.0).rd_rel).relname }).fmt(f)
    }
}

/// A name in a report. Bytes that are not UTF-8 (another server encoding) show as `?`.
pub struct NameText<'a>(pub &'a pg_sys::NameData);

impl fmt::Display for NameText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: the server's names end with a NUL.
        Shown(unsafe { CStr::from_ptr(self.0.data.as_ptr()) }).fmt(f)
    }
}

/// A text in a report, as [`NameText`]. Nothing is allocated.
pub struct Shown<'a>(pub &'a CStr);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.to_bytes().utf8_chunks() {
            f.write_str(chunk.valid())?;
            if !chunk.invalid().is_empty() {
                f.write_str("?")?;
            }
        }
        Ok(())
    }
}

/// Raises a report that is less than an error: it returns.
pub fn report(
    level: PgLogLevel,
    sqlstate: PgSqlErrorCode,
    message: fmt::Arguments<'_>,
    detail: Option<fmt::Arguments<'_>>,
    hint: Option<fmt::Arguments<'_>>,
) {
    let texts = [Some(message), detail, hint].map(|text| text.map(Text::new));
    let texts = texts.each_ref().map(|text| text.as_ref().map(Text::as_c_str));
    // SAFETY: the texts live on this frame's stack, which owns no destructor should the report jump.
    unsafe { report_texts(level as c_int, sqlstate as c_int, texts, None) };
}

/// Raises an error. The server jumps away: callers own no destructors.
#[cold]
pub fn raise(
    sqlstate: PgSqlErrorCode,
    message: fmt::Arguments<'_>,
    detail: Option<fmt::Arguments<'_>>,
    hint: Option<fmt::Arguments<'_>>,
) -> ! {
    report(PgLogLevel::ERROR, sqlstate, message, detail, hint);
    unreachable!("an error was raised and returned")
}

/// Raises an error of the engine's about an index.
#[cold]
pub fn raise_engine(rel: Relation, error: Error) -> ! {
    let name = Name(rel);
    match error {
        Error::Corrupt { block, what } => raise(
            PgSqlErrorCode::ERRCODE_INDEX_CORRUPTED,
            format_args!("index \"{name}\" block {block}: {what}"),
            None,
            Some(format_args!("Please REINDEX it.")),
        ),
        Error::UnknownFormat { format, .. } if format < FORMAT => raise(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            format_args!("index \"{name}\" has format {format}, that of an earlier version"),
            None,
            Some(format_args!("Please REINDEX it.")),
        ),
        Error::UnknownFormat { block, format } => raise(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            format_args!("index \"{name}\" block {block} has format {format}, which this version does not know"),
            None,
            Some(format_args!("Install the fpbtree version that wrote the index, or REINDEX it.")),
        ),
    }
}

/// Raises an error about an index of a table, named as its constraint. `detail` is the server's text, or null.
///
/// # Safety
/// Both relations are open, the texts C strings (`detail` may be null).
pub unsafe fn raise_constraint(
    sqlstate: PgSqlErrorCode,
    message: fmt::Arguments<'_>,
    detail: *const c_char,
    hint: Option<&CStr>,
    table: Relation,
    index: Relation,
) -> ! {
    let message = Text::new(message);
    // SAFETY: both relations are open, and the texts are C strings.
    unsafe {
        let detail = if detail.is_null() { None } else { Some(CStr::from_ptr(detail)) };
        let name = CStr::from_ptr((*(*index).rd_rel).relname.data.as_ptr());
        let texts = [Some(message.as_c_str()), detail, hint];
        report_texts(PgLogLevel::ERROR as c_int, sqlstate as c_int, texts, Some((table, name)));
    }
    unreachable!("an error was raised and returned")
}

/// `CHECK_FOR_INTERRUPTS`.
#[inline]
pub fn check_for_interrupts() {
    // SAFETY: a flag that signal handlers set, read as the server reads it; no content lock is held by the rule of
    // every caller.
    unsafe {
        if (&raw const pg_sys::InterruptPending).read_volatile() != 0 {
            ffi::ProcessInterrupts();
        }
    }
}

/// Waits so many milliseconds, or less if there is something to attend to.
pub fn sleep(milliseconds: i64, wait_event: u32) {
    let events = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
    // SAFETY: this process's own latch.
    unsafe {
        ffi::WaitLatch(pg_sys::MyLatch, events as c_int, milliseconds, wait_event);
        ffi::ResetLatch(pg_sys::MyLatch);
    }
    check_for_interrupts();
}

/// `START_CRIT_SECTION`: from here to the end nothing may fail.
#[inline]
pub fn start_critical_section() {
    // SAFETY: the server's own counter, of one thread.
    unsafe { pg_sys::CritSectionCount += 1 };
}

/// `END_CRIT_SECTION`.
#[inline]
pub fn end_critical_section() {
    // SAFETY: the server's own counter, of one thread.
    unsafe { pg_sys::CritSectionCount -= 1 };
}

/// Starts, fills and finishes a report. All texts are C strings, which the server copies.
unsafe fn report_texts(
    level: c_int,
    sqlstate: c_int,
    texts: [Option<&CStr>; 3],
    constraint: Option<(Relation, &CStr)>,
) {
    const FORMAT: *const c_char = c"%s".as_ptr();
    let [message, detail, hint] = texts;
    // SAFETY: the order ereport() makes these calls in, and one string for each "%s".
    unsafe {
        if !ffi::errstart(level, core::ptr::null()) {
            return;
        }
        ffi::errcode(sqlstate);
        if let Some(text) = message {
            ffi::errmsg(FORMAT, text.as_ptr());
        }
        if let Some(text) = detail {
            ffi::errdetail(FORMAT, text.as_ptr());
        }
        if let Some(text) = hint {
            ffi::errhint(FORMAT, text.as_ptr());
        }
        if let Some((table, name)) = constraint {
            ffi::errtableconstraint(table, name.as_ptr());
        }
        ffi::errfinish(c"fpbtree".as_ptr(), 0, c"fpbtree".as_ptr());
    }
}
