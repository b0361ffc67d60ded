#define _GNU_SOURCE
#include "scenario.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define MOST_LINES 8192
#define LONGEST_KEY 128

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { char *key, *value; } lines[MOST_LINES];
static int line_count;
static char *text;
static struct stat read_as;
static struct timespec loaded;

__attribute__((constructor)) static void note_time(void) { clock_gettime(CLOCK_MONOTONIC, &loaded); }

static int by_key(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void parse(void) {
    char *rest = text, *line;
    line_count = 0;
    while ((line = strsep(&rest, "\n")) && line_count < MOST_LINES) {
        char *equals = strchr(line, '=');
        if (!equals || *line == '#') continue;
        *equals = 0;
        lines[line_count].key = line;
        lines[line_count++].value = equals + 1;
    }
    qsort(lines, (size_t)line_count, sizeof lines[0], by_key);
}

/* Reads the file again where it is another than the last (writers replace it whole). Called with the lock held. */
static void refresh(void) {
    const char *path = getenv("GPULEDGER_FAKE_NVML");
    struct stat now;
    FILE *file;
    if (!path || stat(path, &now)) return;
    if (text && now.st_ino == read_as.st_ino && now.st_size == read_as.st_size &&
        now.st_mtim.tv_sec == read_as.st_mtim.tv_sec && now.st_mtim.tv_nsec == read_as.st_mtim.tv_nsec)
        return;
    if (!(file = fopen(path, "r"))) return;
    free(text);
    text = calloc(1, (size_t)now.st_size + 1);
    if (fread(text, 1, (size_t)now.st_size, file) != (size_t)now.st_size) text[0] = 0;
    fclose(file);
    read_as = now;
    parse();
}

static const char *find(const char *key) {
    void *probe[2] = {(void *)key, NULL};
    char **found = bsearch(probe, lines, (size_t)line_count, sizeof lines[0], by_key);
    return found ? found[1] : NULL;
}

void scenario_look(void) {
    pthread_mutex_lock(&lock);
    refresh();
    pthread_mutex_unlock(&lock);
}

int scenario_text(int gpu, const char *key, char *out, size_t size) {
    char full[LONGEST_KEY];
    const char *value = NULL;
    pthread_mutex_lock(&lock);
    if (gpu >= 0) {
        snprintf(full, sizeof full, "%d.%s", gpu, key);
        value = find(full);
        if (!value) {
            snprintf(full, sizeof full, "*.%s", key);
            value = find(full);
        }
    } else {
        value = find(key);
    }
    if (value) snprintf(out, size, "%s", value);
    pthread_mutex_unlock(&lock);
    return value != NULL && *out != 0;
}

double scenario_number(int gpu, const char *key, double otherwise) {
    char value[64];
    return scenario_text(gpu, key, value, sizeof value) ? strtod(value, NULL) : otherwise;
}

unsigned long long scenario_count(int gpu, const char *key, unsigned long long otherwise) {
    char value[64];
    return scenario_text(gpu, key, value, sizeof value) ? strtoull(value, NULL, 0) : otherwise;
}

int scenario_counter(int gpu, const char *key, unsigned long long *out) {
    char value[64], rate[LONGEST_KEY];
    struct timespec now;
    if (!scenario_text(gpu, key, value, sizeof value)) return 0;
    snprintf(rate, sizeof rate, "%s_per_s", key);
    clock_gettime(CLOCK_MONOTONIC, &now);
    double seconds = (double)(now.tv_sec - loaded.tv_sec) + (double)(now.tv_nsec - loaded.tv_nsec) / 1e9;
    *out = strtoull(value, NULL, 0) + (unsigned long long)(scenario_number(gpu, rate, 0) * seconds);
    return 1;
}

void scenario_called(const char *function, int gpu) {
    const char *path = getenv("GPULEDGER_FAKE_NVML_CALLS");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file) return;
    fprintf(file, "%s %d\n", function, gpu);
    fclose(file);
}
