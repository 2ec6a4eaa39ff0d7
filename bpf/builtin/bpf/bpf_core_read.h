/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See bpf_helpers.h: fields are where the kernel's headers have them. */
#define BPF_CORE_READ_BITFIELD(object, field) ((object)->field)
#define bpf_core_field_exists(field) 1
#define bpf_core_field_offset(type, field) __builtin_offsetof(type, field)
#define bpf_core_type_id_kernel(type) 0
