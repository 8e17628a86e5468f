//! Figures of the process itself, read from `/proc` when somebody scrapes.
use std::{fs, time::SystemTime};

use super::{exposition::Exposition, families::begin};

/// `sysconf(_SC_CLK_TCK)` is 100 on every Linux that this runs on; asking for it needs unsafe code.
const TICKS_PER_SECOND: f64 = 100.0;

/// Remembers when the process began.
pub struct Process {
    started: f64,
}

impl Process {
    pub fn new(now: SystemTime) -> Self {
        Self { started: now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64() }
    }

    /// Writes what can be read; where there is no `/proc`, only the time of start.
    pub fn write(&self, to: &mut Exposition) {
        begin(to, "allium_process_start_time_seconds");
        to.float(&[], self.started);
        let read = |name| fs::read_to_string(name).unwrap_or_default();
        let status = read("/proc/self/status");
        if let Some(kib) = field(&status, "VmRSS:") {
            begin(to, "allium_process_resident_memory_bytes");
            to.integer(&[], kib.saturating_mul(1024));
        }
        if let Some(threads) = field(&status, "Threads:") {
            begin(to, "allium_process_threads");
            to.integer(&[], threads);
        }
        if let Some(seconds) = cpu_seconds(&read("/proc/self/stat")) {
            begin(to, "allium_process_cpu_seconds_total");
            to.float(&[], seconds);
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            begin(to, "allium_process_open_fds");
            // One of them is the listing itself.
            to.integer(&[], (open.count() as u64).saturating_sub(1));
        }
        if let Some(most) = field(&read("/proc/self/limits"), "Max open files") {
            begin(to, "allium_process_max_fds");
            to.integer(&[], most);
        }
    }
}

/// The first number after `name` at the beginning of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|it| it.strip_prefix(name))?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}

/// Fields 14 and 15 of `/proc/self/stat`; the second field is in brackets and may hold anything.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) as f64 / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_read_as_the_kernel_writes_it() {
        assert_eq!(field("Name:\ta\nVmRSS:\t   2048 kB\n", "VmRSS:"), Some(2048));
        assert_eq!(field("Max open files            1024                 4096                 files \n", "Max open files"), Some(1024));
        assert_eq!(field("Max open files            unlimited  unlimited files\n", "Max open files"), None);
        let stat = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(cpu_seconds(""), None);
    }
}
