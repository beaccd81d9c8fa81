//! Builds chrome traces as Kineto writes them.

use slipway_trace::{
    Intake, Options, PhaseSource, SortOptions, analyze, format::Format, kineto, report::Report, spans,
};

/// Unix time of time zero in the traces, nanoseconds.
pub const BASE: i64 = 1_700_000_000_000_000_000;

/// A trace; times are microseconds.
#[derive(Clone, Default)]
pub struct Chrome {
    events: Vec<String>,
    device_name: Option<&'static str>,
}

/// An empty trace.
pub fn chrome() -> Chrome {
    Chrome::default()
}

impl Chrome {
    /// Adds an event as it stands.
    pub fn event(mut self, text: String) -> Self {
        self.events.push(text);
        self
    }

    /// Names device 0.
    pub fn on(mut self, name: &'static str) -> Self {
        self.device_name = Some(name);
        self
    }

    /// A kernel on a device.
    pub fn kernel(self, (start, length): (u32, u32), device: u32, name: &str, correlation: u32) -> Self {
        self.event(format!(
            r#"{{"ph":"X","cat":"kernel","name":"{name}","pid":{device},"tid":7,"ts":{start}.000,"dur":{length}.000,
            "args":{{"External id":1,"device":{device},"stream":7,"correlation":{correlation},"grid":[1,1,1]}}}}"#
        ))
    }

    /// A CUDA call of the host's main thread.
    pub fn call(self, (start, length): (u32, u32), name: &str, correlation: u32) -> Self {
        self.event(format!(
            r#"{{"ph":"X","cat":"cuda_runtime","name":"{name}","pid":400,"tid":400,"ts":{start}.000,"dur":{length}.000,
            "args":{{"External id":1,"cbid":211,"correlation":{correlation}}}}}"#
        ))
    }

    /// A launch that takes a microsecond, and its kernel.
    pub fn launch(self, at: u32, kernel: (u32, u32), name: &str, correlation: u32) -> Self {
        self.call((at, 1), "cudaLaunchKernel", correlation).kernel(kernel, 0, name, correlation)
    }

    /// An operator of the host's main thread.
    pub fn operator(self, (start, length): (u32, u32), name: &str) -> Self {
        self.event(format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"{name}","pid":400,"tid":400,"ts":{start}.000,"dur":{length}.000,"args":{{"External id":1}}}}"#
        ))
    }

    /// A `record_function` range of the host's main thread.
    pub fn range(self, (start, length): (u32, u32), name: &str) -> Self {
        self.event(format!(
            r#"{{"ph":"X","cat":"user_annotation","name":"{name}","pid":400,"tid":400,"ts":{start}.000,"dur":{length}.000,"args":{{}}}}"#
        ))
    }

    /// The file.
    pub fn text(&self) -> String {
        let devices = self.device_name.map_or(String::new(), |name| {
            format!("\"deviceProperties\": [{{\"id\": 0, \"name\": \"{name}\", \"totalGlobalMem\": 150109880320}}],\n")
        });
        format!(
            "{{\n\"schemaVersion\": 1,\n{devices}\"baseTimeNanoseconds\": {BASE},\n\"traceEvents\": [\n{}\n],\n\
             \"traceName\": \"trace.json\"\n}}\n",
            self.events.join(",\n")
        )
    }

    /// The report of this trace alone.
    pub fn report(&self) -> Report {
        ranks(&[self])
    }

    /// The report of this trace with spans of the agent runtime, as (run, phase, start, length) in microseconds.
    pub fn report_with_spans(&self, lines: &[(&str, &str, i64, i64)]) -> Report {
        let mut intake = intake();
        kineto::read(self.text().as_bytes(), &mut intake).unwrap();
        let lines: String = lines
            .iter()
            .map(|(run, phase, start, length)| {
                let (from, to) = (BASE + start * 1_000, BASE + (start + length) * 1_000);
                format!(
                    "{{\"runId\":\"{run}\",\"phase\":\"{phase}\",\"startUnixNanos\":{from},\"endUnixNanos\":{to}}}\n"
                )
            })
            .collect();
        spans::read(lines.as_bytes(), &mut intake).unwrap();
        analyze(intake.finish(), options(Format::Kineto, PhaseSource::Spans)).unwrap()
    }
}

/// The report of several traces as the ranks of one run.
pub fn ranks(traces: &[&Chrome]) -> Report {
    let mut intake = intake();
    for trace in traces {
        kineto::read(trace.text().as_bytes(), &mut intake).unwrap();
    }
    analyze(intake.finish(), options(Format::Kineto, PhaseSource::Ranges)).unwrap()
}

/// Options without averages.
pub fn options(format: Format, phase_source: PhaseSource) -> Options {
    Options { format, phase_source, averages: None }
}

/// An intake that sorts in memory.
pub fn intake() -> Intake {
    Intake::new(SortOptions::in_directory(std::env::temp_dir()))
}
