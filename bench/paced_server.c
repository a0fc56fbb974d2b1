/* A chat endpoint that emits tokens on time, for measuring clients against.
 *
 *   paced_server PORT        PORT 0 takes a free one; prints "ready PORT" and serves 127.0.0.1.
 *
 * Every POST is answered with a stream of server-sent events, one HTTP chunk each. The query says
 * how: ttft_ms (until the first content event), itl_ms (between content events), events (how many),
 * mode: spread (each stream keeps its own time), aligned (all streams emit on one common grid, as
 * an engine's batch does), backlog (the whole answer at once). The first content event bears "t",
 * the CLOCK_MONOTONIC nanoseconds just before it was handed to the kernel; the others differ in
 * their text alone, as an engine's do. In backlog mode answers are made once, so "t" means nothing
 * there. Linux only.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { IN_BYTES = 32768, EVENT_BYTES = 512, BATCH = 256, NO_SLOT = -1 };
enum mode { SPREAD, ALIGNED, BACKLOG };

struct plan {
    uint64_t ttft_ns, itl_ns;
    int events;
    enum mode mode;
};

struct conn {
    int fd, slot, sent, wants_out, dead;
    uint64_t due_ns, first_ns;
    struct plan plan;
    size_t in_len, out_len, out_sent, out_cap;
    char *out;
    char in[IN_BYTES + 1];
};

static int poller;
static struct conn **heap;
static int heap_len, heap_cap;

static uint64_t now_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

static void *must(void *memory)
{
    if (memory == NULL) {
        perror("paced_server");
        exit(1);
    }
    return memory;
}

/* A binary heap of the streams under way, the one due next at the top. */

static void place(struct conn *c, int slot)
{
    heap[slot] = c;
    c->slot = slot;
}

static void sift_up(struct conn *c, int slot)
{
    for (int up; slot > 0 && heap[up = (slot - 1) / 2]->due_ns > c->due_ns; slot = up)
        place(heap[up], slot);
    place(c, slot);
}

static void sift_down(struct conn *c, int slot)
{
    for (int below; (below = 2 * slot + 1) < heap_len; slot = below) {
        if (below + 1 < heap_len && heap[below + 1]->due_ns < heap[below]->due_ns)
            below++;
        if (heap[below]->due_ns >= c->due_ns)
            break;
        place(heap[below], slot);
    }
    place(c, slot);
}

static void schedule(struct conn *c)
{
    if (heap_len == heap_cap) {
        heap_cap = heap_cap ? 2 * heap_cap : 1024;
        heap = must(realloc(heap, (size_t)heap_cap * sizeof *heap));
    }
    sift_up(c, heap_len++);
}

static void unschedule(struct conn *c)
{
    int slot = c->slot;
    if (slot == NO_SLOT)
        return;
    struct conn *last = heap[--heap_len];
    c->slot = NO_SLOT;
    if (last != c) {
        sift_down(last, slot);
        sift_up(last, last->slot);
    }
}

/* Writing: what the kernel does not take at once waits for it. */

static void watch(struct conn *c, int out)
{
    if (c->wants_out == out)
        return;
    c->wants_out = out;
    struct epoll_event want = {.events = EPOLLIN | (out ? EPOLLOUT : 0), .data.ptr = c};
    epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &want);
}

static void flush(struct conn *c)
{
    while (c->out_sent < c->out_len) {
        ssize_t n = send(c->fd, c->out + c->out_sent, c->out_len - c->out_sent, MSG_NOSIGNAL);
        if (n < 0) {
            if (errno == EAGAIN)
                watch(c, 1);
            else
                c->dead = 1;
            return;
        }
        c->out_sent += (size_t)n;
    }
    c->out_len = c->out_sent = 0;
    watch(c, 0);
}

static void write_out(struct conn *c, const char *data, size_t len)
{
    if (c->out_len + len > c->out_cap) {
        c->out_cap = 2 * (c->out_len + len);
        c->out = must(realloc(c->out, c->out_cap));
    }
    memcpy(c->out + c->out_len, data, len);
    c->out_len += len;
    flush(c);
}

/* Events, in the shape of an OpenAI chat completion chunk. */

static const char HEAD[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                           "Transfer-Encoding: chunked\r\n\r\n";
static const char DONE[] = "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";

#define CHUNK "data: {\"id\":\"chatcmpl-5b1e0d7c9a3f4826\",\"object\":\"chat.completion.chunk\"," \
              "\"created\":1700000000,\"model\":\"paced\",\"choices\":"
#define CHOICE(delta, finish) "[{\"index\":0,\"delta\":{" delta "},\"finish_reason\":" finish "}]"

static const char ROLE[] = CHOICE("\"role\":\"assistant\",\"content\":\"\"", "null");
/* Words of a tokenizer's kinds: one in eight needs JSON's escapes or UTF-8. */
static const char *const TOKENS[] = {
    CHOICE("\"content\":\" token\"", "null"),   CHOICE("\"content\":\" of\"", "null"),
    CHOICE("\"content\":\" the\"", "null"),     CHOICE("\"content\":\"\\n\"", "null"),
    CHOICE("\"content\":\" stream,\"", "null"), CHOICE("\"content\":\" like\"", "null"),
    CHOICE("\"content\":\" any\"", "null"),     CHOICE("\"content\":\" other\"", "null"),
};
enum { KINDS = sizeof TOKENS / sizeof *TOKENS };
static const char FINISH[] = CHOICE("", "\"stop\"");

static size_t put_event(char *at, const char *choices, int usage, uint64_t t_ns)
{
    char body[EVENT_BYTES], counts[128] = "", stamp[32] = "";
    if (usage)
        sprintf(counts, ",\"usage\":{\"prompt_tokens\":16,\"completion_tokens\":%d,"
                "\"total_tokens\":%d}", usage, usage + 16);
    if (t_ns)
        sprintf(stamp, ",\"t\":%llu", (unsigned long long)t_ns);
    int len = sprintf(body, CHUNK "%s%s%s}\n\n", choices, counts, stamp);
    return (size_t)sprintf(at, "%x\r\n%s\r\n", len, body);
}

/* The k-th content event with what goes before the first and after the last. */
static size_t put_token(char *at, int k, int events, uint64_t t_ns)
{
    char *end = at;
    if (k == 0)
        end += put_event(end, ROLE, 0, 0);
    end += put_event(end, TOKENS[k % KINDS], 0, k == 0 ? t_ns : 0);
    if (k == events - 1) {
        end += put_event(end, FINISH, 0, 0);
        end += put_event(end, "[]", events, 0);
        end += sprintf(end, "%s", DONE);
    }
    return (size_t)(end - at);
}

static void answer_at_once(struct conn *c)
{
    static char *made;
    static size_t made_len;
    static int made_events;
    int events = c->plan.events;
    if (made_events != events) {
        made = must(realloc(made, sizeof HEAD + sizeof DONE + (size_t)(events + 3) * EVENT_BYTES));
        char *end = made + sprintf(made, "%s", HEAD);
        for (int k = 0; k < events; k++)
            end += put_token(end, k, events, now_ns());
        made_len = (size_t)(end - made);
        made_events = events;
    }
    write_out(c, made, made_len);
}

static void set_due(struct conn *c)
{
    uint64_t itl_ns = c->plan.itl_ns;
    c->due_ns = c->first_ns + itl_ns * (uint64_t)c->sent;
    if (c->plan.mode == ALIGNED && itl_ns)
        c->due_ns = (c->due_ns + itl_ns - 1) / itl_ns * itl_ns;
}

static void emit(struct conn *c)
{
    char events[5 * EVENT_BYTES];
    size_t len = put_token(events, c->sent, c->plan.events, now_ns());
    c->sent++;
    unschedule(c);
    if (c->sent < c->plan.events) {
        set_due(c);
        schedule(c);
    }
    write_out(c, events, len);
}

/* Requests. */

static double parameter(const char *query, const char *name, double otherwise)
{
    size_t len = strlen(name);
    for (const char *at = query; at != NULL; at = strchr(at, '&')) {
        at++;
        if (strncmp(at, name, len) == 0 && at[len] == '=')
            return atof(at + len + 1);
    }
    return otherwise;
}

static struct plan read_plan(const char *query)
{
    struct plan plan = {.mode = SPREAD};
    if (query != NULL && strstr(query, "mode=aligned"))
        plan.mode = ALIGNED;
    if (query != NULL && strstr(query, "mode=backlog"))
        plan.mode = BACKLOG;
    plan.ttft_ns = (uint64_t)(1e6 * parameter(query, "ttft_ms", 100));
    plan.itl_ns = (uint64_t)(1e6 * parameter(query, "itl_ms", 20));
    double events = parameter(query, "events", 64);
    plan.events = events < 1 ? 1 : events > 100000 ? 100000 : (int)events;
    return plan;
}

/* Take the next whole request off the input and begin to answer it. */
static void take_request(struct conn *c)
{
    c->in[c->in_len] = '\0';
    char *body = strstr(c->in, "\r\n\r\n");
    if (c->slot != NO_SLOT || body == NULL) {
        c->dead |= c->in_len == IN_BYTES;
        return;
    }
    body += 4;
    char *field = strcasestr(c->in, "\r\nContent-Length:");
    size_t length = field != NULL && field < body ? strtoul(field + 17, NULL, 10) : 0;
    size_t whole = (size_t)(body - c->in) + length;
    if (whole > IN_BYTES) {
        c->dead = 1;
        return;
    }
    if (c->in_len < whole)
        return;
    *strstr(c->in, "\r\n") = '\0';
    c->plan = read_plan(strchr(c->in, '?'));
    c->in_len -= whole;
    memmove(c->in, c->in + whole, c->in_len);
    if (c->plan.mode == BACKLOG) {
        answer_at_once(c);
        return;
    }
    c->sent = 0;
    c->first_ns = now_ns() + c->plan.ttft_ns;
    set_due(c);
    schedule(c);
    write_out(c, HEAD, sizeof HEAD - 1);
}

static void read_in(struct conn *c)
{
    ssize_t n = recv(c->fd, c->in + c->in_len, IN_BYTES - c->in_len, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN)) {
        c->dead = 1;
        return;
    }
    if (n > 0) {
        c->in_len += (size_t)n;
        take_request(c);
    }
}

static void drop(struct conn *c)
{
    unschedule(c);
    close(c->fd);
    free(c->out);
    free(c);
}

static void accept_all(int listener)
{
    int fd, on = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        struct conn *c = must(calloc(1, sizeof *c));
        c->fd = fd;
        c->slot = NO_SLOT;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        struct epoll_event want = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(poller, EPOLL_CTL_ADD, fd, &want);
    }
}

static int listen_on(int port)
{
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&at, len) || listen(listener, 4096)) {
        perror("paced_server");
        exit(1);
    }
    getsockname(listener, (struct sockaddr *)&at, &len);
    printf("ready %d\n", ntohs(at.sin_port));
    fflush(stdout);
    return listener;
}

/* Sleep until a socket is ready or the next event is due; epoll_wait alone counts in ms. */
static int wait_ready(struct epoll_event *ready)
{
    struct timespec left = {.tv_sec = 1};
    uint64_t now = now_ns();
    if (heap_len > 0) {
        uint64_t wait_ns = heap[0]->due_ns > now ? heap[0]->due_ns - now : 0;
        left.tv_sec = (time_t)(wait_ns / 1000000000u);
        left.tv_nsec = (long)(wait_ns % 1000000000u);
    }
    struct pollfd any = {.fd = poller, .events = POLLIN};
    return ppoll(&any, 1, &left, NULL) > 0 ? epoll_wait(poller, ready, BATCH, 0) : 0;
}

int main(int argc, char **argv)
{
    struct epoll_event ready[BATCH];
    prctl(PR_SET_TIMERSLACK, 1);
    /* Before other work on the host, where that is allowed: a late server spoils every figure. */
    sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 2});
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    poller = epoll_create1(0);
    int listener = listen_on(argc > 1 ? atoi(argv[1]) : 0);
    struct epoll_event want = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &want);
    for (;;) {
        for (int due = 0; due < BATCH && heap_len > 0 && heap[0]->due_ns <= now_ns(); due++)
            emit(heap[0]);
        int count = wait_ready(ready);
        for (int i = 0; i < count; i++) {
            struct conn *c = ready[i].data.ptr;
            if (c == NULL) {
                accept_all(listener);
                continue;
            }
            if (ready[i].events & EPOLLOUT)
                flush(c);
            if (ready[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP))
                read_in(c);
            if (c->dead)
                drop(c);
        }
    }
}
