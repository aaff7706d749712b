//! The meta page, block 0: what an index is.

use super::*;
use crate::keys::digits::DigitShape;

/// The meta page's content: what an index is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Meta {
    /// How columns make keys.
    pub shape: Shape,
    /// How pages are laid out.
    pub geometry: Geometry,
    /// Which log the index was built for (docs/protocols.md, 17).
    pub log: LogKind,
}

/// How an index's changes are logged, fixed when it is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// The server's generic records: the byte ranges a change wrote.
    Generic,
    /// Records of our own: the change itself.
    Own {
        /// The number of the server's resource manager that its first records are for.
        manager: u8,
    },
}

impl LogKind {
    /// What it is called where people read it.
    pub const fn name(self) -> &'static str {
        match self {
            LogKind::Generic => "generic",
            LogKind::Own { .. } => "own",
        }
    }

    /// Whether records are our own.
    pub const fn is_own(self) -> bool {
        matches!(self, LogKind::Own { .. })
    }

    /// Its code and the resource manager's number, as they are stored.
    const fn to_bytes(self) -> [u8; 2] {
        match self {
            LogKind::Generic => [1, 0],
            LogKind::Own { manager } => [2, manager],
        }
    }

    /// What is stored so, if it is anything. An index that names no number is from before numbers were kept.
    const fn from_bytes(bytes: [u8; 2]) -> Option<Self> {
        match bytes {
            [1, 0] => Some(LogKind::Generic),
            [2, 0] => Some(LogKind::Own { manager: FIRST_MANAGER }),
            [2, manager] if manager >= FIRST_MANAGER => Some(LogKind::Own { manager }),
            _ => None,
        }
    }
}

/// The lowest number that a resource manager of an extension's can have, which is the one for experiments.
const FIRST_MANAGER: u8 = 128;

/// What the meta page begins with, after the page header: "fpbtree" and a zero.
const MAGIC: u64 = u64::from_le_bytes(*b"fpbtree\0");

mod meta_at {
    pub const MAGIC: usize = 64;
    pub const LOG: usize = 72;
    pub const WIDTHS: usize = 73;
    pub const LANE: usize = 77;
    pub const COLUMNS: usize = 78;
    pub const MANAGER: usize = 79;
    pub const COLUMN: usize = 80;
    pub const END: usize = COLUMN + super::BytesShape::COLUMN_BYTES * super::KeyShape::MAX_COLUMNS;
}

impl Meta {
    /// The meta page.
    pub fn page(&self) -> PageBytes {
        let mut bytes = [0; PAGE_SIZE];
        write_u64(&mut bytes, at::BUILD_ID, self.geometry.build_id);
        write_u32(&mut bytes, at::STAMP, self.geometry.leaf.stamp);
        bytes[at::LEVEL] = META_LEVEL;
        write_u64(&mut bytes, meta_at::MAGIC, MAGIC);
        [bytes[meta_at::LOG], bytes[meta_at::MANAGER]] = self.log.to_bytes();
        bytes[meta_at::WIDTHS..meta_at::WIDTHS + 4].copy_from_slice(&self.geometry.widths());
        bytes[meta_at::LANE] = self.shape.lane_kind().code();
        bytes[meta_at::COLUMNS] = self.shape.columns() as u8;
        self.shape.to_bytes(&mut bytes[meta_at::COLUMN..meta_at::END]);
        let used = meta_at::END.next_multiple_of(LINE);
        edit::write_server_header(&mut bytes, used, SPACE_END);
        edit::write_special(&mut bytes, self.geometry.build_id);
        bytes
    }

    /// Reads a meta page, `block` 0 of an index.
    pub fn read(bytes: &PageBytes) -> Result<Meta> {
        let corrupt = |what| Error::Corrupt { block: crate::format::META, what };
        if is_new(bytes) {
            return Err(corrupt("meta page is all zeroes"));
        }
        if read_u64(bytes, meta_at::MAGIC) != MAGIC || bytes[at::LEVEL] != META_LEVEL {
            return Err(corrupt("meta page is not an fpbtree meta page"));
        }
        let format = bytes[at::STAMP];
        if format != FORMAT {
            return Err(Error::UnknownFormat { block: crate::format::META, format });
        }
        let columns = bytes[meta_at::COLUMNS] as usize;
        if columns > KeyShape::MAX_COLUMNS {
            return Err(corrupt("meta page names too many columns"));
        }
        let shape = LaneKind::from_code(bytes[meta_at::LANE])
            .and_then(|kind| Shape::from_bytes(&bytes[meta_at::COLUMN..meta_at::END], columns, kind))
            .ok_or(corrupt("meta page describes no possible key"))?;
        let mut widths = [0; 4];
        widths.copy_from_slice(&bytes[meta_at::WIDTHS..meta_at::WIDTHS + 4]);
        let build_id = read_u64(bytes, at::BUILD_ID);
        let geometry = Geometry::with_widths(shape.lane_kind(), build_id, widths)
            .filter(|geometry| geometry.leaf.stamp == read_u32(bytes, at::STAMP))
            .ok_or(corrupt("meta page describes no possible page layout"))?;
        let log = LogKind::from_bytes([bytes[meta_at::LOG], bytes[meta_at::MANAGER]])
            .ok_or(corrupt("meta page names an unknown log"))?;
        let used = meta_at::END.next_multiple_of(LINE);
        let columns_end = meta_at::COLUMN + shape.stored_length();
        let unused = bytes[at::FLAGS..meta_at::MAGIC].iter().chain(&bytes[columns_end..used]);
        if unused.into_iter().any(|&byte| byte != 0) {
            return Err(corrupt("meta page has bytes where it should be empty"));
        }
        Ok(Meta { shape, geometry, log })
    }
}

/// How the keys of an index are made of its columns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// They fit a lane.
    Exact(KeyShape),
    /// They are byte strings.
    Bytes(BytesShape),
}

impl Shape {
    /// The lane that goes with it.
    pub fn lane_kind(&self) -> LaneKind {
        match self {
            Shape::Exact(shape) => shape.lane_kind(),
            Shape::Bytes(shape) if shape.has_payload() => LaneKind::PrefixPayload,
            Shape::Bytes(_) => LaneKind::Prefix,
        }
    }

    /// Whether keys that were made as `stored` says are read as this says, too.
    pub fn reads(&self, stored: &Shape) -> bool {
        match (self, stored) {
            (Shape::Bytes(long), Shape::Bytes(stored)) => long.reads(stored),
            _ => self == stored,
        }
    }

    /// How many columns make the key.
    pub fn columns(&self) -> usize {
        match self {
            Shape::Exact(shape) => shape.columns().len(),
            Shape::Bytes(shape) => shape.digits().len(),
        }
    }

    /// How the columns of byte strings become digits.
    pub fn digits(&self) -> &[DigitShape] {
        match self {
            Shape::Exact(_) => &[],
            Shape::Bytes(shape) => shape.digits(),
        }
    }

    /// Bytes of the columns as stored.
    fn stored_length(&self) -> usize {
        match self {
            Shape::Exact(shape) => KeyShape::COLUMN_BYTES * shape.columns().len(),
            Shape::Bytes(shape) => BytesShape::COLUMN_BYTES * shape.digits().len(),
        }
    }

    fn to_bytes(self, out: &mut [u8]) {
        match self {
            Shape::Exact(shape) => {
                shape.to_bytes(out);
            }
            Shape::Bytes(shape) => shape.to_bytes(out),
        }
    }

    fn from_bytes(bytes: &[u8], columns: usize, kind: LaneKind) -> Option<Shape> {
        let shape = match kind.is_prefix() {
            false => Shape::Exact(KeyShape::from_bytes(bytes, columns)?),
            true => Shape::Bytes(BytesShape::from_bytes(bytes, columns, kind == LaneKind::PrefixPayload)?),
        };
        (shape.lane_kind() == kind).then_some(shape)
    }
}
