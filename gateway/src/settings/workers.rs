//! How many threads serve requests: as many as the machine, the affinity and the cgroup's quota leave.
use std::{
    borrow::Cow,
    fs,
    num::NonZeroU16,
    path::{Component, Path, PathBuf},
};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// `auto`, or a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Workers {
    #[default]
    #[serde(with = "auto")]
    Auto,
    Number(NonZeroU16),
}

/// More threads than any machine serves with.
const MOST: u16 = 1024;

impl Workers {
    /// How many threads to start on this machine.
    pub fn count(self) -> usize {
        match self {
            Self::Number(it) => usize::from(it.get().min(MOST)),
            Self::Auto => available(Path::new("/")).unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)),
        }
    }
}

impl JsonSchema for Workers {
    fn schema_name() -> Cow<'static, str> {
        "Workers".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [{"const": "auto"}, {"type": "integer", "minimum": 1, "maximum": MOST}]})
    }
}

/// The word `auto`, for serde.
mod auto {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str("auto")
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<(), D::Error> {
        match String::deserialize(from)?.as_str() {
            "auto" => Ok(()),
            _ => Err(D::Error::custom("expected `auto` or a number")),
        }
    }
}

/// CPUs that the process may use: its affinity, cut to the quota, rounded up. `None` where `/proc` says nothing.
///
/// `available_parallelism` rounds the quota down: with 1.5 CPUs a third of them would lie idle.
fn available(root: &Path) -> Option<usize> {
    let status = fs::read_to_string(root.join("proc/self/status")).ok()?;
    let list = status.lines().find_map(|it| it.strip_prefix("Cpus_allowed_list:"))?;
    let cpus = count_list(list.trim())?;
    let quota = quota(root).map_or(usize::MAX, |it| it.ceil() as usize);
    Some(cpus.min(quota).max(1))
}

/// How many a list such as `0-3,8` names.
fn count_list(list: &str) -> Option<usize> {
    list.split(',').try_fold(0usize, |sum, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        sum.checked_add(last.checked_sub(first)? + 1)
    })
}

/// The tightest CPU quota of the process's cgroup and those above it, in CPUs.
fn quota(root: &Path) -> Option<f64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mounts = fs::read_to_string(root.join("proc/self/mountinfo")).unwrap_or_default();
    groups.lines().filter_map(|line| group_quota(root, &mounts, line)).min_by(f64::total_cmp)
}

/// The quota that one line of `/proc/self/cgroup` leads to: `ID:CONTROLLERS:PATH`; no controllers is version 2.
fn group_quota(root: &Path, mounts: &str, line: &str) -> Option<f64> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, path) = (fields.next()?, fields.next()?);
    let second = controllers.is_empty();
    if !second && !controllers.split(',').any(|it| it == "cpu") {
        return None;
    }
    let (mounted_root, mount) = find_mount(mounts, second)?;
    let mount = root.join(mount.strip_prefix("/").ok()?);
    // In a container the group's path may lie outside of what is mounted; then the mount is the group.
    let inner = Path::new(path).strip_prefix(&mounted_root).unwrap_or(Path::new(""));
    let safe = inner.components().all(|it| matches!(it, Component::Normal(_)));
    let group = if safe { mount.join(inner) } else { mount.clone() };
    let read = if second { second_version } else { first_version };
    group.ancestors().take_while(|it| it.starts_with(&mount)).filter_map(read).min_by(f64::total_cmp)
}

/// Root and place of the mount that holds the CPU controller: `ID PARENT DEVICE ROOT PLACE OPTIONS [TAGS] - TYPE SOURCE SUPER`.
fn find_mount(mounts: &str, second: bool) -> Option<(PathBuf, PathBuf)> {
    mounts.lines().find_map(|line| {
        let (front, back) = line.split_once(" - ")?;
        let mut back = back.split(' ');
        let fits = match back.next()? {
            "cgroup2" => second,
            "cgroup" => !second && back.nth(1)?.split(',').any(|it| it == "cpu"),
            _ => false,
        };
        let mut front = front.split(' ').skip(3);
        fits.then_some(())?;
        Some((front.next()?.into(), front.next()?.into()))
    })
}

/// `cpu.max`: `QUOTA PERIOD`, or `max PERIOD`.
fn second_version(group: &Path) -> Option<f64> {
    let text = fs::read_to_string(group.join("cpu.max")).ok()?;
    let (quota, period) = text.trim().split_once(' ')?;
    ratio(quota, period)
}

/// `cpu.cfs_quota_us`, which is -1 for none, and `cpu.cfs_period_us`.
fn first_version(group: &Path) -> Option<f64> {
    let read = |name| fs::read_to_string(group.join(name)).ok();
    ratio(read("cpu.cfs_quota_us")?.trim(), read("cpu.cfs_period_us")?.trim())
}

fn ratio(quota: &str, period: &str) -> Option<f64> {
    let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine as its files show it.
    struct Machine(PathBuf);

    impl Machine {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("allium-workers-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&root);
            for (file, text) in files {
                let path = root.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self(root)
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const EIGHT: (&str, &str) = ("proc/self/status", "Name:\ta\nCpus_allowed:\tff\nCpus_allowed_list:\t0-5,8,10\n");
    const MOUNT_2: (&str, &str) = ("proc/self/mountinfo", "25 1 0:22 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");

    #[test]
    fn the_quota_of_either_version_is_honoured_and_rounded_up() {
        let second = ("proc/self/cgroup", "0::/a/b\n");
        let first = ("proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/docker/1\n");
        let mount_1 = ("proc/self/mountinfo", "30 1 0:30 /docker/1 /sys/fs/cgroup/cpu ro master:1 - cgroup cgroup rw,cpu,cpuacct\n");
        type Files = [(&'static str, &'static str)];
        let cases: &[(&str, &Files, Option<usize>)] = &[
            ("nothing", &[], None),
            ("no-group", &[EIGHT], Some(8)),
            ("v2", &[EIGHT, MOUNT_2, second, ("sys/fs/cgroup/a/b/cpu.max", "150000 100000\n")], Some(2)),
            ("v2-none", &[EIGHT, MOUNT_2, second, ("sys/fs/cgroup/a/b/cpu.max", "max 100000\n")], Some(8)),
            (
                "v2-above",
                &[EIGHT, MOUNT_2, second, ("sys/fs/cgroup/a/b/cpu.max", "max 100000\n"), ("sys/fs/cgroup/a/cpu.max", "50000 100000\n")],
                Some(1),
            ),
            ("v2-own", &[EIGHT, MOUNT_2, ("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/cpu.max", "300000 100000\n")], Some(3)),
            ("v2-outside", &[EIGHT, MOUNT_2, ("proc/self/cgroup", "0::/../../x\n"), ("sys/fs/cgroup/cpu.max", "400000 100000\n")], Some(4)),
            ("v2-much", &[EIGHT, MOUNT_2, second, ("sys/fs/cgroup/a/b/cpu.max", "6400000 100000\n")], Some(8)),
            (
                "v1",
                &[
                    EIGHT,
                    mount_1,
                    first,
                    ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000\n"),
                    ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
                ],
                Some(3),
            ),
            (
                "v1-none",
                &[
                    EIGHT,
                    mount_1,
                    first,
                    ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
                    ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
                ],
                Some(8),
            ),
            ("odd", &[EIGHT, MOUNT_2, second, ("sys/fs/cgroup/a/b/cpu.max", "0 0\n")], Some(8)),
        ];
        for (name, files, want) in cases {
            let machine = Machine::new(name, files);
            assert_eq!(available(&machine.0), *want, "{name}");
        }
    }

    #[test]
    fn auto_is_a_word_and_anything_else_a_number() {
        let read = |text| serde_json::from_str::<Workers>(text);
        assert_eq!(read("\"auto\"").unwrap(), Workers::Auto);
        assert_eq!(read("3").unwrap().count(), 3);
        assert!(read("0").is_err() && read("\"many\"").is_err() && read("-1").is_err());
        assert!(Workers::Auto.count() >= 1);
        assert_eq!(serde_json::to_string(&Workers::Auto).unwrap(), "\"auto\"");
    }
}
