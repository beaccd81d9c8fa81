//! Records as bytes of fixed length, for the runs that [`super::sort`] keeps on disk. Pure.

use std::io;

use super::record::{AgentPhase, CopyKind, Correlation, Counter, Device, Event, NameId, Record, Thread};

/// Bytes of one record: tag, two small fields, start, end, two large fields.
pub(super) const ENCODED_LEN: usize = 1 + 4 + 4 + 8 + 8 + 8 + 8;

/// The fields of an event, flattened: a tag, two of 32 bits and two of 64 bits.
struct Flat {
    tag: u8,
    small: [u32; 2],
    large: [u64; 2],
}

/// Writes a record.
pub(super) fn encode(record: &Record) -> [u8; ENCODED_LEN] {
    let flat = flatten(&record.event);
    let mut bytes = [0; ENCODED_LEN];
    bytes[0] = flat.tag;
    bytes[1..5].copy_from_slice(&flat.small[0].to_le_bytes());
    bytes[5..9].copy_from_slice(&flat.small[1].to_le_bytes());
    bytes[9..17].copy_from_slice(&record.start.to_le_bytes());
    bytes[17..25].copy_from_slice(&record.end.to_le_bytes());
    bytes[25..33].copy_from_slice(&flat.large[0].to_le_bytes());
    bytes[33..41].copy_from_slice(&flat.large[1].to_le_bytes());
    bytes
}

/// Reads a record back.
///
/// # Errors
/// When the bytes are not ones that [`encode`] wrote.
pub(super) fn decode(bytes: &[u8; ENCODED_LEN]) -> io::Result<Record> {
    let small = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let large = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(word)
    };
    let flat = Flat { tag: bytes[0], small: [small(1), small(5)], large: [large(25), large(33)] };
    let event = unflatten(&flat).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "unknown record"))?;
    Ok(Record { start: large(9).cast_signed(), end: large(17).cast_signed(), event })
}

fn flatten(event: &Event) -> Flat {
    let flat = |tag, small, large| Flat { tag, small, large };
    let dev = |device: Device| u32::from(device.0);
    match *event {
        Event::Kernel { device, name, correlation } => flat(0, [dev(device), name.0], [correlation.0, 0]),
        Event::Graph { device, name, correlation } => flat(1, [dev(device), name.0], [correlation.0, 0]),
        Event::Copy { device, kind, bytes, correlation } => {
            flat(2, [dev(device), copy_code(kind)], [correlation.0, bytes])
        }
        Event::Set { device, bytes, correlation } => flat(3, [dev(device), 0], [correlation.0, bytes]),
        Event::Api { thread, name, correlation } => flat(4, [thread.0, name.0], [correlation.0, 0]),
        Event::Operator { thread, name, flops, bytes } => flat(5, [thread.0, name.0], [flops, bytes]),
        Event::Range { thread, name } => flat(6, [thread.0, name.0], [0; 2]),
        Event::ProcessRange { name } => flat(7, [0, name.0], [0; 2]),
        Event::Overhead => flat(8, [0; 2], [0; 2]),
        Event::MemoryLevel { device, allocated, reserved } => flat(9, [dev(device), 0], [allocated, reserved]),
        Event::MemoryDelta { device, bytes } => flat(10, [dev(device), 0], [bytes.cast_unsigned(), 0]),
        Event::Sample { device, counter, milli_percent } => {
            flat(11, [dev(device), counter_code(counter)], [u64::from(milli_percent), 0])
        }
        Event::Phase { run, phase } => flat(12, [run, phase_code(phase)], [0; 2]),
    }
}

fn unflatten(flat: &Flat) -> Option<Event> {
    let [first, second] = flat.small;
    let [one, two] = flat.large;
    let device = || u16::try_from(first).ok().map(Device);
    let (thread, name, correlation) = (Thread(first), NameId(second), Correlation(one));
    Some(match flat.tag {
        0 => Event::Kernel { device: device()?, name, correlation },
        1 => Event::Graph { device: device()?, name, correlation },
        2 => Event::Copy { device: device()?, kind: copy_kind(second)?, bytes: two, correlation },
        3 => Event::Set { device: device()?, bytes: two, correlation },
        4 => Event::Api { thread, name, correlation },
        5 => Event::Operator { thread, name, flops: one, bytes: two },
        6 => Event::Range { thread, name },
        7 => Event::ProcessRange { name },
        8 => Event::Overhead,
        9 => Event::MemoryLevel { device: device()?, allocated: one, reserved: two },
        10 => Event::MemoryDelta { device: device()?, bytes: one.cast_signed() },
        11 => Event::Sample { device: device()?, counter: counter(second)?, milli_percent: u32::try_from(one).ok()? },
        12 => Event::Phase { run: first, phase: phase(second)? },
        _ => return None,
    })
}

const COPY_KINDS: [CopyKind; 5] =
    [CopyKind::HostToDevice, CopyKind::DeviceToHost, CopyKind::DeviceToDevice, CopyKind::PeerToPeer, CopyKind::Other];
const COUNTERS: [Counter; 4] = [Counter::SmActive, Counter::TensorActive, Counter::DramRead, Counter::DramWrite];
const PHASES: [AgentPhase; 4] = [AgentPhase::Preprocessing, AgentPhase::Inference, AgentPhase::Tool, AgentPhase::Idle];

const fn copy_code(kind: CopyKind) -> u32 {
    kind as u32
}

const fn counter_code(counter: Counter) -> u32 {
    counter as u32
}

const fn phase_code(phase: AgentPhase) -> u32 {
    phase as u32
}

fn copy_kind(code: u32) -> Option<CopyKind> {
    COPY_KINDS.get(code as usize).copied()
}

fn counter(code: u32) -> Option<Counter> {
    COUNTERS.get(code as usize).copied()
}

fn phase(code: u32) -> Option<AgentPhase> {
    PHASES.get(code as usize).copied()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(Event::Kernel { device: Device(7), name: NameId(9), correlation: Correlation(u64::MAX) })]
    #[case(Event::Graph { device: Device(1), name: NameId(2), correlation: Correlation(3) })]
    #[case(Event::Copy { device: Device(1), kind: CopyKind::PeerToPeer, bytes: 1 << 40, correlation: Correlation(3) })]
    #[case(Event::Set { device: Device(1), bytes: 2, correlation: Correlation(3) })]
    #[case(Event::Api { thread: Thread(u32::MAX), name: NameId(2), correlation: Correlation(3) })]
    #[case(Event::Operator { thread: Thread(1), name: NameId(2), flops: 3, bytes: 4 })]
    #[case(Event::Range { thread: Thread(1), name: NameId(2) })]
    #[case(Event::ProcessRange { name: NameId(2) })]
    #[case(Event::Overhead)]
    #[case(Event::MemoryLevel { device: Device(1), allocated: 2, reserved: 3 })]
    #[case(Event::MemoryDelta { device: Device(1), bytes: -5 })]
    #[case(Event::Sample { device: Device(1), counter: Counter::DramWrite, milli_percent: 99_000 })]
    #[case(Event::Phase { run: 3, phase: AgentPhase::Idle })]
    fn a_record_survives_the_disk(#[case] event: Event) {
        let record = Record::new(-5, 1_795_254_395_968_155_430, event);

        assert_eq!(decode(&encode(&record)).unwrap(), record);
    }

    #[test]
    fn unknown_bytes_are_refused() {
        assert_eq!(decode(&[0xff; ENCODED_LEN]).unwrap_err().to_string(), "unknown record");
    }
}
