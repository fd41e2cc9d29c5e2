// SPDX-License-Identifier: GPL-2.0-only
//! Just enough of BTF to see whether it tells the truth about sched_ext's functions.
//!
//! The problem: from Linux 7.0 on, kernel functions may have an implicit parameter, `aux`, which
//! BPF programs do not pass. The build is to write two functions into the BTF, `scx_bpf_x` without
//! it and `scx_bpf_x_impl` with it. pahole 1.30 leaves about twenty functions of sched_ext as they
//! are, and no program that calls one of them can be loaded: "func_proto incompatible with
//! vmlinux".
//!
//! BTF is a header (magic u16, version u8, flags u8, header length u32, then offset and length of
//! the type section and of the string section, relative to the header's end) and two sections. A
//! type is name offset, info (kind in bits 24–28, vlen in bits 0–15), size or referred type, and
//! data whose length depends on kind and vlen. Type ids count from 1.
//!
//! Seen: Debian's 7.2.11+deb13 has 18 such functions, its 7.2.13+deb14 none.

const STRUCT: u32 = 4;
const FUNC: u32 = 12;
const FUNC_PROTO: u32 = 13;
const ENUM64: u32 = 19;

/// What BTF says of sched_ext.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The functions are as they are; what this kernel does not tell a scheduler, so that tix's
    /// cannot hold it.
    Sound(Vec<&'static str>),
    /// It does not know sched_ext, or cannot be read.
    Unknown,
    /// It gives an implicit parameter to these functions.
    Wrong(Vec<String>),
}

/// Looks at all of sched_ext's functions in `btf`, and at what they are told.
pub fn sched_ext(btf: &[u8]) -> Verdict {
    let Some(found) = look(btf) else {
        return Verdict::Unknown;
    };
    let functions = found.functions;
    if !functions
        .iter()
        .any(|(name, _)| name == "scx_bpf_create_dsq")
    {
        return Verdict::Unknown;
    }
    let wrong = |(name, last): &(String, String)| !name.ends_with("_impl") && last == "aux";
    let wrong: Vec<String> = functions
        .into_iter()
        .filter(wrong)
        .map(|(name, _)| name)
        .collect();
    match wrong.is_empty() {
        true => Verdict::Sound(lacking(&found.told)),
        false => Verdict::Wrong(wrong),
    }
}

/// As tixd's loader decides it (`bpf/src/kernel.rs`), with the Linux that has it.
fn lacking(told: &[String]) -> Vec<&'static str> {
    [
        ("cgroup_set_bandwidth", "cpu.max (6.17 does)"),
        ("cgroup_set_idle", "cpu.idle (6.19)"),
        (
            "SCX_DEQ_SCHED_CHANGE",
            "nice levels inside a cgroup, exactly and on several CPUs (7.1)",
        ),
    ]
    .into_iter()
    .filter(|(name, _)| !told.iter().any(|t| t == name))
    .map(|(_, what)| what)
    .collect()
}

struct Found {
    /// The name of every `scx_bpf_` function and of its last parameter (empty without one).
    functions: Vec<(String, String)>,
    /// A scheduler's operations, and the flags that it is given with one of them.
    told: Vec<String>,
}

fn look(btf: &[u8]) -> Option<Found> {
    if btf.get(..2)? != 0xeb9f_u16.to_ne_bytes() {
        return None;
    }
    let header = word(btf, 4)? as usize;
    let section = |at| -> Option<&[u8]> {
        let from = header.checked_add(word(btf, at)? as usize)?;
        btf.get(from..from.checked_add(word(btf, at + 4)? as usize)?)
    };
    let (types, strings) = (section(8)?, section(16)?);
    let called = |offset: u32| {
        strings
            .get(offset as usize..)?
            .split(|byte| *byte == 0)
            .next()
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();

    let mut prototypes = Vec::new();
    let (mut found, mut told) = (Vec::new(), Vec::new());
    let (mut at, mut id) = (0, 1);
    while at < types.len() {
        let (name, info, refers) = (word(types, at)?, word(types, at + 4)?, word(types, at + 8)?);
        let (kind, vlen) = ((info >> 24) & 0x1f, (info & 0xffff) as usize);
        match kind {
            FUNC if called(name)?.starts_with(b"scx_bpf_") => {
                found.push((text(called(name)?), refers))
            }
            FUNC_PROTO => {
                let last = vlen
                    .checked_sub(1)
                    .map(|last| word(types, at + 12 + 8 * last));
                prototypes.push((id, last.unwrap_or(Some(0))?));
            }
            STRUCT | ENUM64
                if [&b"sched_ext_ops"[..], b"scx_deq_flags"].contains(&called(name)?) =>
            {
                // Of either kind a part is three words, and the first is its name.
                for part in 0..vlen {
                    told.push(text(called(word(types, at + 12 + 12 * part)?)?));
                }
            }
            _ => {}
        }
        at += 12 + data_length(kind, vlen)?;
        id += 1;
    }
    let last = |prototype: u32| {
        let index = prototypes
            .binary_search_by_key(&prototype, |(id, _)| *id)
            .ok()?;
        called(prototypes[index].1)
    };
    let functions = found
        .into_iter()
        .map(|(name, prototype)| Some((name, text(last(prototype)?))));
    Some(Found {
        functions: functions.collect::<Option<_>>()?,
        told,
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Bytes after a type's first twelve; `None` for a kind that came after this was written.
fn data_length(kind: u32, vlen: usize) -> Option<usize> {
    Some(match kind {
        1 | 14 | 17 => 4,                      // int, var, decl_tag
        3 => 12,                               // array
        STRUCT | 5 | 15 | ENUM64 => 12 * vlen, // union, datasec
        6 | FUNC_PROTO => 8 * vlen,            // enum
        // Pointers, forward, typedef, qualifiers, func, float, type_tag.
        2 | 7..=FUNC | 16 | 18 => 0,
        _ => return None,
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// BTF of scx_bpf_create_dsq and scx_bpf_dsq_peek, the latter with a last parameter that is
    /// called so, and of an operation that is.
    pub fn btf(last: &str, operation: &str) -> Vec<u8> {
        let flag = "SCX_DEQ_SCHED_CHANGE";
        let strings = format!(
            "\0scx_bpf_create_dsq\0scx_bpf_dsq_peek\0dsq_id\0{last}\0sched_ext_ops\0\
             cgroup_set_idle\0{operation}\0scx_deq_flags\0{flag}\0"
        );
        let offset = |name: &str| strings.find(&format!("\0{name}\0")).unwrap() as u32 + 1;
        let mut types = Vec::new();
        let mut push = |words: &[u32]| {
            words
                .iter()
                .for_each(|word| types.extend(word.to_ne_bytes()))
        };
        push(&[0, 1 << 24, 4, 32]); // 1: int
        push(&[0, FUNC_PROTO << 24 | 1, 1, offset("dsq_id"), 1]); // 2
        push(&[offset("scx_bpf_create_dsq"), FUNC << 24, 2]); // 3
        push(&[
            0,
            FUNC_PROTO << 24 | 2,
            1,
            offset("dsq_id"),
            1,
            offset(last),
            1,
        ]); // 4
        push(&[offset("scx_bpf_dsq_peek"), FUNC << 24, 4]); // 5
        push(&[offset("sched_ext_ops"), STRUCT << 24 | 2, 16]); // 6
        push(&[offset("cgroup_set_idle"), 1, 0]);
        push(&[offset(operation), 1, 64]);
        push(&[offset("scx_deq_flags"), ENUM64 << 24 | 1, 8]); // 7
        push(&[offset(flag), 0, 2]);
        let mut btf = Vec::from(0xeb9f_u16.to_ne_bytes());
        btf.extend([1, 0]);
        for word in [24, 0, types.len(), types.len(), strings.len()] {
            btf.extend((word as u32).to_ne_bytes());
        }
        btf.extend(types);
        btf.extend(strings.as_bytes());
        btf
    }

    const LIMIT: &str = "cgroup_set_bandwidth";

    #[test]
    fn an_implicit_parameter_is_wrong() {
        assert_eq!(sched_ext(&btf("node", LIMIT)), Verdict::Sound(vec![]));
        assert_eq!(sched_ext(&btf("aux__prog", LIMIT)), Verdict::Sound(vec![]));
        assert_eq!(
            sched_ext(&btf("aux", LIMIT)),
            Verdict::Wrong(vec!["scx_bpf_dsq_peek".into()])
        );
    }

    #[test]
    fn what_a_scheduler_is_not_told_is_named() {
        let Verdict::Sound(lacking) = sched_ext(&btf("node", "cgroup_move")) else {
            panic!("not sound");
        };
        assert!(matches!(&lacking[..], [one] if one.starts_with("cpu.max")));
    }

    #[test]
    fn noise_is_unknown() {
        let whole = btf("node", LIMIT);
        for length in 0..whole.len() {
            assert_eq!(sched_ext(&whole[..length]), Verdict::Unknown);
        }
        assert_eq!(sched_ext(&[0xff; 64]), Verdict::Unknown);
    }

    /// The kernel's own BTF, where it is there: the section walk must get through all of it.
    #[test]
    fn real_btf_is_walked_to_the_end() {
        if let Ok(bytes) = std::fs::read("/sys/kernel/btf/vmlinux") {
            assert!(look(&bytes).is_some());
        }
    }
}
