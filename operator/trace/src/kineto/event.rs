//! One element of `traceEvents`, reduced to the fields the analysis reads. Reads IO through the scanner.

use std::io::Read;

use super::{
    decimal,
    flops::{self, Formula, Work},
    scan::{ScanError, Scanner},
};

/// Category of an event; torch renamed them in 1.12 (`Kernel` became `kernel`), both spellings count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Category {
    Kernel,
    Copy,
    Set,
    Runtime,
    Operator,
    Annotation,
    Overhead,
    Memory,
    #[default]
    Ignored,
}

fn category(text: &[u8]) -> Category {
    match text {
        b"kernel" | b"Kernel" => Category::Kernel,
        b"gpu_memcpy" | b"Memcpy" => Category::Copy,
        b"gpu_memset" | b"Memset" => Category::Set,
        b"cuda_runtime" | b"cuda_driver" | b"Runtime" => Category::Runtime,
        b"cpu_op" | b"Operator" => Category::Operator,
        b"user_annotation" => Category::Annotation,
        b"overhead" => Category::Overhead,
        // gpu_user_annotation spans all that one annotation launched, gaps included: it is no GPU activity.
        _ => Category::Ignored,
    }
}

/// The event, reused from element to element.
#[derive(Debug, Default)]
pub(super) struct RawEvent {
    pub(super) phase: u8,
    pub(super) category: Category,
    pub(super) name: Vec<u8>,
    pub(super) start: Option<i64>,
    pub(super) duration: i64,
    pub(super) process: u64,
    pub(super) thread: u64,
    pub(super) correlation: u32,
    pub(super) device: Option<u32>,
    pub(super) bytes: u64,
    pub(super) device_type: u64,
    pub(super) device_id: Option<u32>,
    pub(super) allocated: Option<u64>,
    pub(super) reserved: Option<u64>,
    formula: Option<Formula>,
    shapes: Vec<Vec<u64>>,
    element_bytes: u64,
}

impl RawEvent {
    /// Returns the work of an operator whose shapes are known.
    pub(super) fn work(&self) -> Option<Work> {
        flops::work(self.formula?, &self.shapes, self.element_bytes.max(1))
    }

    /// Takes one element; afterwards the scanner stands behind it.
    pub(super) fn read<R: Read>(&mut self, scanner: &mut Scanner<R>, text: &mut Vec<u8>) -> Result<(), ScanError> {
        self.clear();
        scanner.expect(b'{', "an event object")?;
        let mut first = true;
        while scanner.more(&mut first, b'}')? {
            scanner.key(text)?;
            match text.as_slice() {
                b"ph" => {
                    scanner.scalar(text)?;
                    self.phase = text.first().copied().unwrap_or(0);
                }
                b"cat" => {
                    scanner.scalar(text)?;
                    if self.category != Category::Memory {
                        self.category = category(text);
                    }
                }
                b"name" => {
                    scanner.scalar(&mut self.name)?;
                    self.formula = flops::formula(&self.name);
                    if self.name == b"[memory]" {
                        self.category = Category::Memory;
                    }
                }
                b"ts" => {
                    scanner.scalar(text)?;
                    self.start = decimal::micros_to_nanos(text);
                }
                b"dur" => {
                    scanner.scalar(text)?;
                    self.duration = decimal::micros_to_nanos(text).unwrap_or(0);
                }
                b"pid" => self.process = identity(scanner, text)?,
                b"tid" => self.thread = identity(scanner, text)?,
                b"args" if self.wants_arguments() => self.arguments(scanner, text)?,
                _ => scanner.skip()?,
            }
        }
        Ok(())
    }

    fn clear(&mut self) {
        let (name, shapes) = (std::mem::take(&mut self.name), std::mem::take(&mut self.shapes));
        *self = Self { name, shapes, ..Self::default() };
        self.name.clear();
        self.shapes.clear();
    }

    /// Arguments are most of the file. They are read unless the fields before them show that nothing in them is needed.
    fn wants_arguments(&self) -> bool {
        match self.category {
            Category::Kernel | Category::Copy | Category::Set | Category::Runtime | Category::Memory => true,
            Category::Operator => self.formula.is_some() || self.name.is_empty(),
            Category::Annotation | Category::Overhead => false,
            Category::Ignored => self.name.is_empty() || self.phase == 0,
        }
    }

    fn arguments<R: Read>(&mut self, scanner: &mut Scanner<R>, text: &mut Vec<u8>) -> Result<(), ScanError> {
        if scanner.peek()? != b'{' {
            return scanner.skip();
        }
        scanner.expect(b'{', "an object")?;
        let mut first = true;
        while scanner.more(&mut first, b'}')? {
            scanner.key(text)?;
            match text.as_slice() {
                b"correlation" => self.correlation = number(scanner, text)?.unwrap_or(0),
                b"device" => self.device = number(scanner, text)?,
                b"bytes" => self.bytes = number(scanner, text)?.unwrap_or(0),
                b"Device Type" => self.device_type = number(scanner, text)?.unwrap_or(0),
                b"Device Id" => self.device_id = number(scanner, text)?,
                b"Total Allocated" => self.allocated = number(scanner, text)?,
                b"Total Reserved" => self.reserved = number(scanner, text)?,
                b"Input Dims" | b"Input dims" => self.read_shapes(scanner, text)?,
                b"Input type" => self.read_types(scanner, text)?,
                _ => scanner.skip()?,
            }
        }
        Ok(())
    }

    fn read_shapes<R: Read>(&mut self, scanner: &mut Scanner<R>, text: &mut Vec<u8>) -> Result<(), ScanError> {
        if scanner.peek()? != b'[' {
            return scanner.skip();
        }
        scanner.expect(b'[', "a list")?;
        let mut first = true;
        while scanner.more(&mut first, b']')? {
            let mut shape = Vec::new();
            if scanner.peek()? == b'[' {
                scanner.expect(b'[', "a list")?;
                let mut inner = true;
                while scanner.more(&mut inner, b']')? {
                    // Lists of tensors nest one deeper; they leave a zero, which fits no formula of a product.
                    shape.push(number(scanner, text)?.unwrap_or(0));
                }
            } else {
                scanner.skip()?;
            }
            self.shapes.push(shape);
        }
        Ok(())
    }

    fn read_types<R: Read>(&mut self, scanner: &mut Scanner<R>, text: &mut Vec<u8>) -> Result<(), ScanError> {
        if scanner.peek()? != b'[' {
            return scanner.skip();
        }
        scanner.expect(b'[', "a list")?;
        let mut first = true;
        while scanner.more(&mut first, b']')? {
            scanner.scalar(text)?;
            if self.element_bytes == 0 && !text.is_empty() {
                self.element_bytes = flops::element_bytes(text);
            }
        }
        Ok(())
    }
}

fn number<R: Read, N: std::str::FromStr>(scanner: &mut Scanner<R>, text: &mut Vec<u8>) -> Result<Option<N>, ScanError> {
    scanner.scalar(text)?;
    Ok(std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()))
}

/// Process and thread ids are numbers, or words such as `Spans`; words become a hash (FNV-1a) past every real id.
fn identity<R: Read>(scanner: &mut Scanner<R>, text: &mut Vec<u8>) -> Result<u64, ScanError> {
    Ok(number(scanner, text)?.unwrap_or_else(|| {
        let hash = text
            .iter()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        hash | 1 << 63
    }))
}
