// SPDX-License-Identifier: GPL-2.0-only
// What a guest does at the ports of QEMU's PC, where an access takes effect between two
// instructions: nothing depends on when this machine's disk or its scheduler gets to it.
//
//   ports beat MICROSECONDS   the timer chip's channel 0 ends the turn of an emulated CPU that often
//   ports job                 wait for the job that QEMU was given (opt/tix/job), and print it

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <unistd.h>

enum { PIT_CHANNEL_0 = 0x40, PIT_MODE = 0x43, PIT_HZ = 1193182 };
enum { FW_CFG_SELECT = 0x510, FW_CFG_DATA = 0x511, FW_CFG_DIRECTORY = 0x19 };

static int beat(unsigned microseconds)
{
	unsigned count = (unsigned)((uint64_t)PIT_HZ * 2 * microseconds / 1000000);

	if (count < 2 || count > UINT16_MAX)
		return fprintf(stderr, "ports: no beat of %u us\n", microseconds), 1;
	outb(0x36, PIT_MODE);
	outb(count & 0xff, PIT_CHANNEL_0);
	outb(count >> 8, PIT_CHANNEL_0);
	return 0;
}

static void take(void *to, size_t size)
{
	for (uint8_t *at = to; size; size--)
		*at++ = inb(FW_CFG_DATA);
}

static uint32_t take_number(void)
{
	uint8_t b[4];

	take(b, sizeof(b));
	return (uint32_t)b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3];
}

// Its size, with the device at its beginning; 0 if there is none.
static uint32_t find(const char *name)
{
	outw(FW_CFG_DIRECTORY, FW_CFG_SELECT);
	for (uint32_t left = take_number(); left; left--) {
		uint32_t size = take_number(), key = take_number() >> 16;
		char found[56];

		take(found, sizeof(found));
		if (strncmp(found, name, sizeof(found)))
			continue;
		outw(key, FW_CFG_SELECT);
		return size;
	}
	return 0;
}

static int job(void)
{
	uint32_t size;
	char *text;

	while (!(size = find("opt/tix/job")))
		usleep(20000);
	text = malloc(size);
	if (!text)
		return perror("ports: malloc"), 1;
	take(text, size);
	return fwrite(text, 1, size, stdout) != size || fflush(stdout);
}

int main(int argc, char **argv)
{
	if (iopl(3))
		return perror("ports: iopl"), 1;
	if (argc == 3 && !strcmp(argv[1], "beat"))
		return beat((unsigned)atoi(argv[2]));
	if (argc == 2 && !strcmp(argv[1], "job"))
		return job();
	fprintf(stderr, "usage: ports beat MICROSECONDS | ports job\n");
	return 2;
}
