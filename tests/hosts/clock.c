/* A wall clock that is AHEAD_S seconds ahead, for programs that this library is preloaded into.
 *
 * Time namespaces shift CLOCK_MONOTONIC and CLOCK_BOOTTIME only. Not shifted: time stamps of files, timers at
 * absolute times, and programs that ask the kernel themselves. */
#define _GNU_SOURCE
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int result = syscall(SYS_clock_gettime, clock, now);

	if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		now->tv_sec += AHEAD_S;
	return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	int result = syscall(SYS_gettimeofday, now, zone);

	if (result == 0)
		now->tv_sec += AHEAD_S;
	return result;
}

time_t time(time_t *to)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (to != NULL)
		*to = now.tv_sec;
	return now.tv_sec;
}
