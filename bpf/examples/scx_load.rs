// SPDX-License-Identifier: GPL-2.0-only
//! `scx_load OBJECT`: loads the sched_ext scheduler in a BPF object file, and keeps it in force until it is killed.

use libbpf_rs::{MapCore, MapType, ObjectBuilder};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("which object file?")?;
    let mut object = ObjectBuilder::default().open_file(path)?.load()?;
    let mut links = Vec::new();
    for mut map in object.maps_mut() {
        if map.map_type() == MapType::StructOps {
            links.push(map.attach_struct_ops()?);
        }
    }
    loop {
        std::thread::park();
    }
}
