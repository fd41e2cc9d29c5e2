/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's constants, resolved from its BTF when the program is loaded. (The community
 * headers keep them in read-only data that their own loader fills in.)
 */
#ifndef TIX_ENUMS_BPF_H
#define TIX_ENUMS_BPF_H

#undef SCX_DSQ_GLOBAL
#undef SCX_DSQ_LOCAL
#undef SCX_DSQ_LOCAL_ON
#undef SCX_DEQ_SLEEP
#undef SCX_ENQ_LAST
#undef SCX_ENQ_PREEMPT
#undef SCX_ENQ_WAKEUP
#undef SCX_KICK_IDLE
#undef SCX_KICK_PREEMPT
#undef SCX_TASK_QUEUED
#undef SCX_OPS_ENQ_LAST
#undef SCX_OPS_ENQ_EXITING
#undef SCX_OPS_ENQ_MIGRATION_DISABLED

#define SCX_DSQ_GLOBAL bpf_core_enum_value(enum scx_dsq_id_flags, SCX_DSQ_GLOBAL)
#define SCX_DSQ_LOCAL bpf_core_enum_value(enum scx_dsq_id_flags, SCX_DSQ_LOCAL)
#define SCX_DSQ_LOCAL_ON bpf_core_enum_value(enum scx_dsq_id_flags, SCX_DSQ_LOCAL_ON)
#define SCX_DEQ_SLEEP bpf_core_enum_value(enum scx_deq_flags, SCX_DEQ_SLEEP)
#define SCX_ENQ_LAST bpf_core_enum_value(enum scx_enq_flags, SCX_ENQ_LAST)
#define SCX_ENQ_PREEMPT bpf_core_enum_value(enum scx_enq_flags, SCX_ENQ_PREEMPT)
#define SCX_ENQ_WAKEUP bpf_core_enum_value(enum scx_enq_flags, SCX_ENQ_WAKEUP)
#define SCX_KICK_IDLE bpf_core_enum_value(enum scx_kick_flags, SCX_KICK_IDLE)
#define SCX_KICK_PREEMPT bpf_core_enum_value(enum scx_kick_flags, SCX_KICK_PREEMPT)
#define SCX_TASK_QUEUED bpf_core_enum_value(enum scx_ent_flags, SCX_TASK_QUEUED)
/* Data of the ops table cannot be relocated; these are stable since 6.12, the last since 6.14. */
#define SCX_OPS_ENQ_LAST (1ull << 1)
#define SCX_OPS_ENQ_EXITING (1ull << 2)
#define SCX_OPS_ENQ_MIGRATION_DISABLED (1ull << 4)

#endif
