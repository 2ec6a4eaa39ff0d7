// SPDX-License-Identifier: GPL-2.0
/*
 * mptune's network in a guest's kernel: devices at the ends of paths, and between them the model of the
 * simulator, a static library in Rust (crates/mptune-guest-network, under the MIT licence here). What a device
 * sends enters the model at once, and one timer delivers what is due: a packet needs no process.
 *
 * User space opens /dev/mptune-network, writes lines of JSON (the configuration, then commands) and reads the
 * answer to each. MPTUNE_ADD makes the next device of the configuration in a network namespace. Closing the file
 * removes everything. Devices, and their frames, are as those of tun.c with TUN_F_CSUM, TUN_F_TSO4, TUN_F_TSO6
 * and TUN_F_TSO_ECN: the program that emulates with TUN devices uses the same library.
 *
 * The library is called under one lock. It uses SSE registers, as every program does: the kernel's own code does not,
 * a function that switches to another thread saves none, and where a signal interrupts this machine saves them. Of
 * the 16 KiB of a kernel stack the configuration takes 5, and a packet 2 at most, 3 deep in the stack of TCP.
 */
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/if_arp.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <linux/virtio_net.h>
#include <net/ip_tunnels.h>
#include <net/net_namespace.h>

/* The library, crates/mptune-guest-network/src/boundary.rs. */
enum { TOLD_REFUSED, TOLD_TAKEN, TOLD_STARTED, TOLD_ENDED };
struct model;
struct model *mptune_model_new(void (*panicked)(const u8 *message, size_t length));
void mptune_model_free(struct model *model);
u32 mptune_model_tell(struct model *model, const u8 *line, size_t length, u64 now);
size_t mptune_model_read(struct model *model, u8 *to, size_t length);
u32 mptune_model_devices(const struct model *model);
u8 *mptune_model_frame(struct model *model);
void mptune_model_enter(struct model *model, u32 device, size_t length, u64 now);
void mptune_model_deliver(struct model *model, u64 now,
			  bool (*send)(void *context, u32 device, const u8 *frame, size_t length),
			  void *context);
u64 mptune_model_next(const struct model *model, u64 now);
void mptune_model_fault(void);

/* What user space gives for a device: crates/mptune-emulator/src/sys.rs. */
struct mptune_device {
	s32 netns;
	char name[IFNAMSIZ];
};
#define MPTUNE_ADD _IOW('m', 1, struct mptune_device)

/* Most devices, and bytes of a line: traces of a link may be long. */
#define DEVICES 512
#define LINE (256u << 20)
#define FEATURES (NETIF_F_SG | NETIF_F_FRAGLIST | NETIF_F_HW_CSUM | NETIF_F_TSO | NETIF_F_TSO_ECN | NETIF_F_TSO6)

struct network {
	struct model *model;
	struct hrtimer timer;
	/* Time of the timer; U64_MAX if it is not set. */
	u64 alarm;
	/* Nothing is carried before the start: frames wait, as in a TUN device that is not read. */
	bool started;
	struct sk_buff_head waiting;
	/* Frames that are due, while the model gives them. */
	struct sk_buff_head due;
	u32 devices;
	struct net_device *device[DEVICES];
};

struct end {
	struct network *network;
	u32 number;
};

/* For tests: the library panics as soon as it is used. */
static bool fault;
module_param(fault, bool, 0);

/* Held while the library runs, by whoever calls it; there is one network at a time. */
static DEFINE_SPINLOCK(lock);
static struct network *opened;

/* What the emulation promises ends with it: no result follows from a fault. */
static void panicked(const u8 *message, size_t length)
{
	panic("mptune-network: %.*s", (int)length, message);
}

/* Sets the timer to the model's next delivery. */
static void arm(struct network *network, u64 now)
{
	u64 next = mptune_model_next(network->model, now);

	if (next == network->alarm)
		return;
	network->alarm = next;
	if (next == U64_MAX)
		hrtimer_try_to_cancel(&network->timer);
	else
		hrtimer_start(&network->timer, ns_to_ktime(next), HRTIMER_MODE_ABS_SOFT);
}

/* Puts a packet on the network. */
static void enter(struct network *network, struct sk_buff *skb, u64 now)
{
	struct end *end = netdev_priv(skb->dev);
	u8 *frame = mptune_model_frame(network->model);
	struct virtio_net_hdr header;

	if (skb->len <= U16_MAX && !virtio_net_hdr_from_skb(skb, &header, true, false, 0)) {
		memcpy(frame, &header, sizeof(header));
		if (!skb_copy_bits(skb, 0, frame + sizeof(header), skb->len))
			mptune_model_enter(network->model, end->number, sizeof(header) + skb->len, now);
	}
	consume_skb(skb);
}

static netdev_tx_t xmit(struct sk_buff *skb, struct net_device *device)
{
	struct end *end = netdev_priv(device);
	struct network *network = end->network;

	device->stats.tx_packets++;
	device->stats.tx_bytes += skb->len;
	skb_tx_timestamp(skb);
	/* Its sender goes on, as with a TUN device. */
	skb_orphan(skb);
	nf_reset_ct(skb);
	spin_lock(&lock);
	if (network->started) {
		u64 now = ktime_get_ns();

		enter(network, skb, now);
		arm(network, now);
	} else {
		__skb_queue_tail(&network->waiting, skb);
	}
	spin_unlock(&lock);
	return NETDEV_TX_OK;
}

/*
 * Makes a packet of a frame that is due. Its memory counts for the receiver's socket, and is that of a packet of
 * a TUN device: in one piece, if that is smaller than a page.
 */
static bool send(void *context, u32 number, const u8 *frame, size_t length)
{
	struct network *network = context;
	struct net_device *device = network->device[number];
	struct virtio_net_hdr header;
	size_t linear;
	struct sk_buff *skb;
	int error;

	memcpy(&header, frame, sizeof(header));
	frame += sizeof(header);
	length -= sizeof(header);
	linear = NET_SKB_PAD + length < PAGE_SIZE ? length : min_t(size_t, header.hdr_len, length);
	if (!(device->flags & IFF_UP))
		return false;
	skb = alloc_skb_with_frags(NET_SKB_PAD + linear, length - linear, PAGE_ALLOC_COSTLY_ORDER, &error,
				   GFP_ATOMIC);
	if (!skb)
		return false;
	skb_reserve(skb, NET_SKB_PAD);
	skb_put(skb, linear);
	skb->data_len = length - linear;
	skb->len = length;
	skb->dev = device;
	skb->protocol = frame[0] >> 4 == 6 ? htons(ETH_P_IPV6) : htons(ETH_P_IP);
	skb_reset_mac_header(skb);
	skb_reset_network_header(skb);
	if (skb_store_bits(skb, 0, frame, length) || virtio_net_hdr_to_skb(skb, &header, true)) {
		kfree_skb(skb);
		return false;
	}
	skb_reset_network_header(skb);
	skb_probe_transport_header(skb);
	device->stats.rx_packets++;
	device->stats.rx_bytes += length;
	__skb_queue_tail(&network->due, skb);
	return true;
}

/* Delivers what is due; in a softirq, and without the lock, as a receiver answers at once. */
static enum hrtimer_restart deliver(struct hrtimer *timer)
{
	struct network *network = container_of(timer, struct network, timer);
	struct sk_buff *skb;
	u64 now;

	spin_lock(&lock);
	now = ktime_get_ns();
	network->alarm = U64_MAX;
	mptune_model_deliver(network->model, now, send, network);
	arm(network, now);
	spin_unlock(&lock);
	while ((skb = __skb_dequeue(&network->due)))
		netif_receive_skb(skb);
	return HRTIMER_NORESTART;
}

static const struct net_device_ops device_ops = { .ndo_start_xmit = xmit };

static void set_up(struct net_device *device)
{
	device->netdev_ops = &device_ops;
	device->header_ops = &ip_tunnel_header_ops;
	device->type = ARPHRD_NONE;
	device->flags = IFF_POINTOPOINT | IFF_NOARP | IFF_MULTICAST;
	device->mtu = 1500;
	device->min_mtu = 68;
	device->max_mtu = 65535;
	device->hw_features = FEATURES;
	device->features = FEATURES;
	device->needs_free_netdev = true;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
	device->lltx = true;
#else
	device->features |= NETIF_F_LLTX;
#endif
}

static long add(struct network *network, const struct mptune_device __user *from)
{
	struct mptune_device asked;
	struct net_device *device;
	struct net *net;
	struct end *end;
	u32 most;
	int error;

	if (copy_from_user(&asked, from, sizeof(asked)))
		return -EFAULT;
	asked.name[IFNAMSIZ - 1] = 0;
	spin_lock_bh(&lock);
	most = mptune_model_devices(network->model);
	spin_unlock_bh(&lock);
	if (network->devices >= min_t(u32, most, DEVICES))
		return -ENOSPC;
	net = get_net_ns_by_fd(asked.netns);
	if (IS_ERR(net))
		return PTR_ERR(net);
	device = alloc_netdev(sizeof(*end), asked.name, NET_NAME_USER, set_up);
	if (device) {
		dev_net_set(device, net);
		end = netdev_priv(device);
		end->network = network;
		end->number = network->devices;
		error = register_netdev(device);
		if (error)
			free_netdev(device);
		else
			network->device[network->devices++] = device;
	} else {
		error = -ENOMEM;
	}
	put_net(net);
	return error;
}

static long control(struct file *file, unsigned int command, unsigned long argument)
{
	struct network *network = file->private_data;

	if (command != MPTUNE_ADD)
		return -ENOTTY;
	/* Devices come and go with the file, one after the other. */
	return add(network, (const struct mptune_device __user *)argument);
}

static ssize_t tell(struct file *file, const char __user *from, size_t length, loff_t *position)
{
	struct network *network = file->private_data;
	struct sk_buff *skb;
	u8 *line;
	u32 told;
	u64 now;

	if (length > LINE)
		return -EMSGSIZE;
	line = kvmalloc(length + 1, GFP_KERNEL);
	if (!line)
		return -ENOMEM;
	if (copy_from_user(line, from, length)) {
		kvfree(line);
		return -EFAULT;
	}
	spin_lock_bh(&lock);
	now = ktime_get_ns();
	told = mptune_model_tell(network->model, line, length, now);
	/* A model that was configured for more devices than were added would have nowhere to send to. */
	if (told == TOLD_STARTED && network->devices == mptune_model_devices(network->model)) {
		network->started = true;
		while ((skb = __skb_dequeue(&network->waiting)))
			enter(network, skb, now);
	}
	if (network->started)
		arm(network, now);
	spin_unlock_bh(&lock);
	kvfree(line);
	return told == TOLD_REFUSED ? -EINVAL : length;
}

static ssize_t answer(struct file *file, char __user *to, size_t length, loff_t *position)
{
	struct network *network = file->private_data;
	size_t size = min_t(size_t, length, 1 << 16);
	u8 *part = kvmalloc(size + 1, GFP_KERNEL);

	if (!part)
		return -ENOMEM;
	spin_lock_bh(&lock);
	size = mptune_model_read(network->model, part, size);
	spin_unlock_bh(&lock);
	if (copy_to_user(to, part, size)) {
		kvfree(part);
		return -EFAULT;
	}
	kvfree(part);
	return size;
}

static int open_network(struct inode *inode, struct file *file)
{
	struct network *network = kvzalloc(sizeof(*network), GFP_KERNEL);
	bool busy;

	if (!network)
		return -ENOMEM;
	__skb_queue_head_init(&network->waiting);
	__skb_queue_head_init(&network->due);
	network->alarm = U64_MAX;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(&network->timer, deliver, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
#else
	hrtimer_init(&network->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	network->timer.function = deliver;
#endif
	spin_lock_bh(&lock);
	busy = opened;
	if (!busy) {
		opened = network;
		network->model = mptune_model_new(panicked);
		if (fault)
			mptune_model_fault();
	}
	spin_unlock_bh(&lock);
	if (busy) {
		kvfree(network);
		return -EBUSY;
	}
	file->private_data = network;
	return nonseekable_open(inode, file);
}

static int close_network(struct inode *inode, struct file *file)
{
	struct network *network = file->private_data;
	u32 number;

	/* Afterwards nothing enters and nothing is delivered: devices may go. */
	spin_lock_bh(&lock);
	network->started = false;
	spin_unlock_bh(&lock);
	hrtimer_cancel(&network->timer);
	for (number = 0; number < network->devices; number++)
		unregister_netdev(network->device[number]);
	spin_lock_bh(&lock);
	__skb_queue_purge(&network->waiting);
	mptune_model_free(network->model);
	opened = NULL;
	spin_unlock_bh(&lock);
	kvfree(network);
	return 0;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = open_network,
	.release = close_network,
	.read = answer,
	.write = tell,
	.unlocked_ioctl = control,
};

static struct miscdevice misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "mptune-network",
	.mode = 0600,
	.fops = &operations,
};
builtin_misc_device(misc);
