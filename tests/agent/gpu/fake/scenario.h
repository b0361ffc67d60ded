/* The scenario: a text file of `key=value` lines, looked at again at every call, so that a test can change the world. */

#ifndef SCENARIO_H
#define SCENARIO_H

#include <stddef.h>

/* Reads the file again where it was replaced. */
void scenario_look(void);

/* Copies the value of "<gpu>.<key>", else of "*.<key>" (or of the plain key where gpu < 0); 0 where there is none. */
int scenario_text(int gpu, const char *key, char *out, size_t size);

/* The same as a number, `otherwise` where there is none. */
double scenario_number(int gpu, const char *key, double otherwise);
unsigned long long scenario_count(int gpu, const char *key, unsigned long long otherwise);

/* A counter: the value of `key` plus `key`_per_s times the seconds since the library was loaded. 0 where there is none. */
int scenario_counter(int gpu, const char *key, unsigned long long *out);

/* Notes a call in the file named by GPULEDGER_FAKE_NVML_CALLS, where it is set. */
void scenario_called(const char *function, int gpu);

#endif
