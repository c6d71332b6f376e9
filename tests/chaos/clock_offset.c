/* Moves the wall clock of a process and its children: seconds in the file that CHAOS_CLOCK names.
   Only what says what time it is; clocks that measure durations stay as they are. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *offset;

__attribute__((constructor)) static void map_offset(void) {
  const char *path = getenv("CHAOS_CLOCK");
  int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return;
  void *memory = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
  if (memory != MAP_FAILED) offset = memory;
  close(fd);
}

int clock_gettime(clockid_t id, struct timespec *when) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int answer = real(id, when);
  if (!answer && offset && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) when->tv_sec += *offset;
  return answer;
}

int gettimeofday(struct timeval *restrict when, void *restrict zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  when->tv_sec = now.tv_sec;
  when->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *when) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (when) *when = now.tv_sec;
  return now.tv_sec;
}
