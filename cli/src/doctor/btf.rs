// SPDX-License-Identifier: GPL-2.0-only
//! Just enough of BTF to see whether it tells the truth about sched_ext's functions.
//!
//! The problem: from Linux 7.0 on, kernel functions may have an implicit parameter, `aux`, which BPF programs do not pass. The build is
//! to write two functions into the BTF, `scx_bpf_x` without it and `scx_bpf_x_impl` with it. pahole 1.30 leaves about twenty functions
//! of sched_ext as they are, and no program that calls one of them can be loaded: "func_proto incompatible with vmlinux".
//!
//! BTF is a header (magic u16, version u8, flags u8, header length u32, then offset and length of the type section and of the string
//! section, relative to the header's end) and two sections. A type is name offset, info (kind in bits 24–28, vlen in bits 0–15), size
//! or referred type, and data whose length depends on kind and vlen. Type ids count from 1.
//!
//! Seen: Debian's 7.2.11+deb13 has 18 such functions, its 7.2.13+deb14 none.

const FUNC: u32 = 12;
const FUNC_PROTO: u32 = 13;

/// What BTF says of sched_ext.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Sound,
    /// It does not know sched_ext, or cannot be read.
    Unknown,
    /// It gives an implicit parameter to these functions.
    Wrong(Vec<String>),
}

/// Looks at all of sched_ext's functions in `btf`.
pub fn sched_ext(btf: &[u8]) -> Verdict {
    let Some(functions) = functions(btf) else {
        return Verdict::Unknown;
    };
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
        true => Verdict::Sound,
        false => Verdict::Wrong(wrong),
    }
}

/// The name of every `scx_bpf_` function and of its last parameter (empty without one).
fn functions(btf: &[u8]) -> Option<Vec<(String, String)>> {
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
    let mut found = Vec::new();
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
    found
        .into_iter()
        .map(|(name, prototype)| Some((name, text(last(prototype)?))))
        .collect()
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Bytes after a type's first twelve; `None` for a kind that came after this was written.
fn data_length(kind: u32, vlen: usize) -> Option<usize> {
    Some(match kind {
        1 | 14 | 17 => 4,             // int, var, decl_tag
        3 => 12,                      // array
        4 | 5 | 15 | 19 => 12 * vlen, // struct, union, datasec, enum64
        6 | FUNC_PROTO => 8 * vlen,   // enum
        2 | 7..=FUNC | 16 | 18 => 0, // pointers, forward, typedef, qualifiers, func, float, type_tag
        _ => return None,
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// BTF of scx_bpf_create_dsq and scx_bpf_dsq_peek, the latter with a last parameter that is called so.
    pub fn btf(last: &str) -> Vec<u8> {
        let strings = format!("\0scx_bpf_create_dsq\0scx_bpf_dsq_peek\0dsq_id\0{last}\0");
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
        let mut btf = Vec::from(0xeb9f_u16.to_ne_bytes());
        btf.extend([1, 0]);
        for word in [24, 0, types.len(), types.len(), strings.len()] {
            btf.extend((word as u32).to_ne_bytes());
        }
        btf.extend(types);
        btf.extend(strings.as_bytes());
        btf
    }

    #[test]
    fn an_implicit_parameter_is_wrong() {
        assert_eq!(sched_ext(&btf("node")), Verdict::Sound);
        assert_eq!(sched_ext(&btf("aux__prog")), Verdict::Sound);
        assert_eq!(
            sched_ext(&btf("aux")),
            Verdict::Wrong(vec!["scx_bpf_dsq_peek".into()])
        );
    }

    #[test]
    fn noise_is_unknown() {
        let whole = btf("node");
        for length in 0..whole.len() {
            assert_eq!(sched_ext(&whole[..length]), Verdict::Unknown);
        }
        assert_eq!(sched_ext(&[0xff; 64]), Verdict::Unknown);
    }

    /// The kernel's own BTF, where it is there: the section walk must get through all of it.
    #[test]
    fn real_btf_is_walked_to_the_end() {
        if let Ok(bytes) = std::fs::read("/sys/kernel/btf/vmlinux") {
            assert!(functions(&bytes).is_some());
        }
    }
}
