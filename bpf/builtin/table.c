// SPDX-License-Identifier: GPL-2.0
/* What path policies are told of paths, in a kernel that runs no BPF programs: one table in the place of their maps, since a
 * guest has one trial. Whoever writes /dev/mptune-paths replaces it whole, by entries of a value and its key as
 * ../include/paths.h has them, and four bytes of zero.
 */
#include <linux/bottom_half.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#define MOST_PATHS 1024

struct entry {
	u64 value[2];
	u32 bits;
	u8 path[32];
	u32 unused;
};

static struct entry table[MOST_PATHS];
static size_t entries;

/* The first bits of both are the same. */
static bool covers(const struct entry *entry, const u8 *path)
{
	u32 whole = entry->bits / 8, rest = entry->bits % 8;

	if (memcmp(entry->path, path, whole))
		return false;
	return !rest || !((entry->path[whole] ^ path[whole]) >> (8 - rest));
}

const void *mptune_told(const void *key)
{
	const u8 *path = (const u8 *)key + sizeof(u32);
	const struct entry *found = NULL;

	for (size_t i = 0; i < entries; i++)
		if (covers(&table[i], path) && (!found || table[i].bits > found->bits))
			found = &table[i];
	return found ? found->value : NULL;
}

static ssize_t tell(struct file *file, const char __user *from, size_t length, loff_t *position)
{
	struct entry *told;

	if (length % sizeof(*told) || length > sizeof(table))
		return -EINVAL;
	told = memdup_user(from, length);
	if (IS_ERR(told))
		return PTR_ERR(told);
	for (size_t i = 0; i < length / sizeof(*told); i++)
		told[i].bits = min(told[i].bits, 8u * (u32)sizeof(told[i].path));
	/* Hooks run in softirqs, or with them disabled; there is one processor. */
	local_bh_disable();
	memcpy(table, told, length);
	entries = length / sizeof(*told);
	local_bh_enable();
	kfree(told);
	return length;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.write = tell,
};

static struct miscdevice misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "mptune-paths",
	.mode = 0600,
	.fops = &operations,
};
builtin_misc_device(misc);
