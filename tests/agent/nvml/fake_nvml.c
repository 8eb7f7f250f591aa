/*
 * A library that speaks NVML about invented cards, so that the real binding is tested without a driver.
 *
 * The file that $FAKE_NVML names describes the cards. It is read again at every look at the cards and while errors are
 * waited for, so a test changes it under a running program. Its lines:
 *
 *   card UUID MIB USED-MIB BUSY-PERCENT MIG BUS-ID NAME   MIB -1: memory not supported; MIG -1: not supported
 *   link FIRST SECOND ANCESTOR NVLINKS                    how two cards, by index, are connected
 *   xid INDEX NUMBER                                      an error, reported once; INDEX -1 names no card
 *   fail FUNCTION CODE [INDEX]                            what a function answers, for one card if there is an index
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, INVALID = 2, UNSUPPORTED = 3, NOT_FOUND = 6, NO_DRIVER = 9, TIMEOUT = 10, UNKNOWN = 999 };
enum { MOST = 64, XID = 8, NO_CARD = -1, POLL_MS = 20, MOST_LINKS = 18 };

struct card { char uuid[96], bus[32], name[96]; long mib, used; int busy, mig; };
struct link { int first, second, ancestor, nvlinks; };
struct xid { int index; unsigned long long number; };
struct failure { char function[80]; int code, index; };
struct pci { char legacy[16]; unsigned int domain, bus, device, id, subsystem; char busId[32]; };
struct event { void *device; unsigned long long type, data; unsigned int gpu_instance, compute_instance; };

static struct card cards[MOST];
static struct link links[MOST];
static struct xid xids[MOST];
static struct failure failures[MOST];
static int n_cards, n_links, n_xids, n_failures, reported;

static int look(void) {
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[512];
    if (!file) return NO_DRIVER;
    n_cards = n_links = n_xids = n_failures = 0;
    while (fgets(line, sizeof line, file)) {
        struct card *c = &cards[n_cards];
        struct link *l = &links[n_links];
        struct xid *x = &xids[n_xids];
        struct failure *f = &failures[n_failures];
        f->index = NO_CARD;
        if (n_cards < MOST && sscanf(line, "card %95s %ld %ld %d %d %31s %95[^\n]", c->uuid, &c->mib, &c->used, &c->busy,
                                     &c->mig, c->bus, c->name) == 7) n_cards++;
        else if (n_links < MOST && sscanf(line, "link %d %d %d %d", &l->first, &l->second, &l->ancestor, &l->nvlinks) == 4) n_links++;
        else if (n_xids < MOST && sscanf(line, "xid %d %llu", &x->index, &x->number) == 2) n_xids++;
        else if (n_failures < MOST && sscanf(line, "fail %79s %d %d", f->function, &f->code, &f->index) >= 2) n_failures++;
    }
    fclose(file);
    return OK;
}

static int index_of(void *handle) { return (int)(long)handle - 1; }
static void *handle_of(int index) { return (void *)(long)(index + 1); }

/* What a function answers before it does anything: an injected failure, or that there is no such card. */
static int said(const char *function, void *handle, int needs_card) {
    int i, index = needs_card ? index_of(handle) : NO_CARD;
    for (i = 0; i < n_failures; i++)
        if (!strcmp(failures[i].function, function) && (failures[i].index == NO_CARD || failures[i].index == index))
            return failures[i].code;
    return needs_card && (index < 0 || index >= n_cards) ? INVALID : OK;
}

#define ANSWER(handle) do { int code = said(__func__, handle, 1); if (code) return code; } while (0)
#define ANSWER_WITHOUT_CARD do { int code = said(__func__, NULL, 0); if (code) return code; } while (0)

static int copied(char *into, unsigned int size, const char *text) {
    snprintf(into, size, "%s", text);
    return OK;
}

int nvmlInitWithFlags(unsigned int flags) {
    int code = look();
    (void)flags;
    if (code) return code;
    reported = n_xids;
    ANSWER_WITHOUT_CARD;
    return OK;
}
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) {
    static char text[40];
    snprintf(text, sizeof text, "invented error %d", code);
    return text;
}
int nvmlSystemGetDriverVersion(char *version, unsigned int size) { return copied(version, size, "999.1"); }
int nvmlSystemGetCudaDriverVersion(int *version) { *version = 13000; return OK; }

int nvmlDeviceGetCount_v2(unsigned int *count) {
    int code = look();
    if (code) return code;
    ANSWER_WITHOUT_CARD;
    *count = n_cards;
    return OK;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **handle) {
    ANSWER(handle_of(index));
    *handle = handle_of(index);
    return OK;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
    int i;
    for (i = 0; i < n_cards; i++)
        if (!strcmp(cards[i].uuid, uuid)) { *handle = handle_of(i); return OK; }
    return NOT_FOUND;
}
int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned int size) {
    ANSWER(handle);
    return copied(uuid, size, cards[index_of(handle)].uuid);
}
int nvmlDeviceGetName(void *handle, char *name, unsigned int size) {
    ANSWER(handle);
    return copied(name, size, cards[index_of(handle)].name);
}
int nvmlDeviceGetIndex(void *handle, unsigned int *index) { ANSWER(handle); *index = index_of(handle); return OK; }
int nvmlDeviceGetMinorNumber(void *handle, unsigned int *minor) { ANSWER(handle); *minor = index_of(handle); return OK; }
int nvmlDeviceGetMemoryInfo(void *handle, unsigned long long *memory) {
    struct card *c;
    ANSWER(handle);
    c = &cards[index_of(handle)];
    if (c->mib < 0) return UNSUPPORTED;
    memory[0] = (unsigned long long)c->mib << 20;
    memory[2] = (unsigned long long)c->used << 20;
    memory[1] = memory[0] - memory[2];
    return OK;
}
int nvmlDeviceGetUtilizationRates(void *handle, unsigned int *rates) {
    ANSWER(handle);
    rates[0] = rates[1] = cards[index_of(handle)].busy;
    return OK;
}
static int fill(struct pci *info, const char *bus) {
    memset(info, 0, sizeof *info);
    return copied(info->busId, sizeof info->busId, bus);
}
int nvmlDeviceGetPciInfo_v3(void *handle, struct pci *info) {
    ANSWER(handle);
    return fill(info, cards[index_of(handle)].bus);
}
int nvmlDeviceGetMigMode(void *handle, unsigned int *current, unsigned int *pending) {
    ANSWER(handle);
    if (cards[index_of(handle)].mig < 0) return UNSUPPORTED;
    *current = *pending = cards[index_of(handle)].mig;
    return OK;
}

/* -- links: a card's NVLinks are numbered in the order of the lines */

int nvmlDeviceGetTopologyCommonAncestor(void *first, void *second, unsigned int *level) {
    int i, a = index_of(first), b = index_of(second);
    ANSWER(first);
    ANSWER(second);
    *level = 50;
    for (i = 0; i < n_links; i++)
        if ((links[i].first == a && links[i].second == b) || (links[i].first == b && links[i].second == a))
            *level = links[i].ancestor;
    return OK;
}
static int far_end(int index, unsigned int link) {
    unsigned int seen = 0;
    int i;
    for (i = 0; i < n_links; i++) {
        if (links[i].first != index && links[i].second != index) continue;
        if (link < seen + links[i].nvlinks) return links[i].first == index ? links[i].second : links[i].first;
        seen += links[i].nvlinks;
    }
    return NO_CARD;
}
int nvmlDeviceGetNvLinkState(void *handle, unsigned int link, unsigned int *active) {
    ANSWER(handle);
    if (link >= MOST_LINKS) return INVALID;
    *active = far_end(index_of(handle), link) != NO_CARD;
    return OK;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *handle, unsigned int link, struct pci *info) {
    int other;
    ANSWER(handle);
    other = far_end(index_of(handle), link);
    return other == NO_CARD ? INVALID : fill(info, cards[other].bus);
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void *handle, unsigned int link, unsigned int *type) {
    ANSWER(handle);
    *type = 0;
    return far_end(index_of(handle), link) == NO_CARD ? INVALID : OK;
}

/* -- errors of cards */

int nvmlEventSetCreate(void **set) { ANSWER_WITHOUT_CARD; *set = handle_of(0); return OK; }
int nvmlEventSetFree(void *set) { (void)set; return OK; }
int nvmlDeviceGetSupportedEventTypes(void *handle, unsigned long long *types) { ANSWER(handle); *types = 1 | 2 | XID; return OK; }
int nvmlDeviceRegisterEvents(void *handle, unsigned long long types, void *set) {
    (void)types;
    (void)set;
    ANSWER(handle);
    return OK;
}
int nvmlEventSetWait_v2(void *set, struct event *event, unsigned int timeout) {
    unsigned int waited;
    (void)set;
    for (waited = 0;; waited += POLL_MS) {
        if (look()) return UNKNOWN;
        ANSWER_WITHOUT_CARD;
        if (reported < n_xids) {
            memset(event, 0, sizeof *event);
            event->device = handle_of(xids[reported].index);
            event->type = XID;
            event->data = xids[reported++].number;
            event->gpu_instance = event->compute_instance = ~0u;
            return OK;
        }
        if (waited >= timeout) return TIMEOUT;
        usleep(POLL_MS * 1000);
    }
}
