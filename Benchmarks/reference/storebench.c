// Measures the same work with SQLite's C API, written as SQLite's documentation suggests: prepared statements, one
// transaction, WAL. The rows are those of Benchmarks/Sources/store-bench.
//
//   storebench insert FILE ROWS      inserts ROWS rows in one transaction
//   storebench fetch FILE ROWS       fetches each of ROWS rows by its id, in scattered order
//   storebench scan FILE ROWS        reads ROWS rows into memory
//   storebench files FOLDER ROWS     writes ROWS files of 400 bytes, each synchronized and renamed, as the queue of downloads
//                                    keeps its records
//   storebench outbox-add FILE ROWS    inserts ROWS rows of the schema of an outbox, each synchronized in a transaction of its
//                                      own
//   storebench outbox-batch FILE ROWS  inserts the same rows in one transaction, synchronized
//
// Prints one line of JSON. CPU time is user + system over the measured part only.

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "measure.h"

struct row {
    long long id, age;
    char *name, *mail, *note;
    double score, created;
    int active;
};

static sqlite3 *database;

static void check(int code, const char *what) {
    if (code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE) return;
    fprintf(stderr, "storebench: %s: %s\n", what, sqlite3_errmsg(database));
    exit(1);
}

static sqlite3_stmt *prepare(const char *sql) {
    sqlite3_stmt *statement;
    check(sqlite3_prepare_v3(database, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL), sql);
    return statement;
}

static char *text(sqlite3_stmt *statement, int column) {
    const unsigned char *bytes = sqlite3_column_text(statement, column);
    if (!bytes) return NULL;
    int count = sqlite3_column_bytes(statement, column);
    char *copy = malloc(count + 1);
    memcpy(copy, bytes, count + 1);
    return copy;
}

static void read_row(sqlite3_stmt *statement, struct row *row) {
    row->id = sqlite3_column_int64(statement, 0);
    row->name = text(statement, 1);
    row->mail = text(statement, 2);
    row->age = sqlite3_column_int64(statement, 3);
    row->score = sqlite3_column_double(statement, 4);
    row->active = sqlite3_column_int(statement, 5);
    row->created = sqlite3_column_double(statement, 6);
    row->note = text(statement, 7);
}

static void free_row(struct row *row) {
    free(row->name);
    free(row->mail);
    free(row->note);
}

static void write_files(const char *folder, long rows) {
    char bytes[400], path[4096], temporary[4096 + 4];
    memset(bytes, 'x', sizeof bytes);
    for (long number = 0; number < rows; number++) {
        snprintf(path, sizeof path, "%s/%ld", folder, number);
        snprintf(temporary, sizeof temporary, "%s.new", path);
        int file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (file < 0 || write(file, bytes, sizeof bytes) != sizeof bytes || fdatasync(file) != 0 || close(file) != 0 ||
            rename(temporary, path) != 0) {
            perror(path);
            exit(1);
        }
    }
}

static void step(sqlite3_stmt *statement) {
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {}
    check(code, "step");
    sqlite3_reset(statement);
}

// The schema and the statements of OutboxStore. No row is in its other indexes.
static void create_outbox(void) {
    check(sqlite3_exec(
              database,
              "PRAGMA synchronous = FULL;"
              "CREATE TABLE outbox(id INTEGER PRIMARY KEY CHECK (id = 1), number INTEGER NOT NULL, count INTEGER NOT NULL,"
              " answered INTEGER NOT NULL, dead INTEGER NOT NULL, size INTEGER NOT NULL, boot TEXT, uptime INTEGER,"
              " wall INTEGER, time INTEGER);"
              "INSERT INTO outbox VALUES (1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL);"
              "CREATE TABLE entries(id INTEGER PRIMARY KEY, place INTEGER NOT NULL, state INTEGER NOT NULL,"
              " ready INTEGER NOT NULL, sending INTEGER NOT NULL DEFAULT 0, grp TEXT, supersedes TEXT, handler TEXT,"
              " target TEXT NOT NULL, key TEXT NOT NULL, own INTEGER NOT NULL, priority INTEGER NOT NULL,"
              " added INTEGER NOT NULL, expires INTEGER, due INTEGER NOT NULL DEFAULT 0, size INTEGER NOT NULL,"
              " attempts INTEGER NOT NULL DEFAULT 0, unseen INTEGER NOT NULL DEFAULT 0, told INTEGER NOT NULL DEFAULT 1,"
              " reason TEXT, status INTEGER, request BLOB NOT NULL, body BLOB, answer BLOB);"
              "CREATE INDEX ready ON entries(priority DESC, place, target)"
              " WHERE state = 0 AND ready = 1 AND sending = 0 AND due = 0;",
              NULL, NULL, NULL),
          "create");
}

static void add_to_outbox(long rows, int each) {
    sqlite3_stmt *begin = prepare("BEGIN IMMEDIATE"), *commit = prepare("COMMIT");
    sqlite3_stmt *counting = prepare("UPDATE outbox SET number = number + 1, count = count + 1, size = size + ? "
                                     "WHERE id = 1 RETURNING number, count, size, dead");
    sqlite3_stmt *adding = prepare("INSERT INTO entries(id, place, state, ready, target, key, own, priority, added, size, "
                                   "request, body) VALUES (?1, ?1, 0, 1, ?2, ?3, 0, 1, ?4, ?5, ?6, ?7)");
    if (!each) step(begin);
    for (long row = 1; row <= rows; row++) {
        char key[40], body[128], request[256];
        snprintf(key, sizeof key, "%032lx", row * 0x9E3779B97F4A7C15);
        snprintf(body, sizeof body, "{\"sensor\":7,\"number\":%ld,\"celsius\":21.5}", row);
        snprintf(request, sizeof request,
                 "{\"method\":\"POST\",\"url\":\"http://127.0.0.1:8080/1k.json\",\"body\":{\"type\":\"application/json\"}}");
        if (each) step(begin);
        sqlite3_bind_int64(counting, 1, 200);
        step(counting);
        sqlite3_bind_int64(adding, 1, row);
        sqlite3_bind_text(adding, 2, "http://127.0.0.1:8080", -1, SQLITE_TRANSIENT);
        sqlite3_bind_text(adding, 3, key, -1, SQLITE_TRANSIENT);
        sqlite3_bind_int64(adding, 4, 1800000000000 + row);
        sqlite3_bind_int64(adding, 5, 200);
        sqlite3_bind_blob(adding, 6, request, strlen(request), SQLITE_TRANSIENT);
        sqlite3_bind_blob(adding, 7, body, strlen(body), SQLITE_TRANSIENT);
        step(adding);
        if (each) step(commit);
    }
    if (!each) step(commit);
    sqlite3_finalize(begin);
    sqlite3_finalize(commit);
    sqlite3_finalize(counting);
    sqlite3_finalize(adding);
}

int main(int count, char **arguments) {
    if (count != 4) {
        fprintf(stderr, "usage: storebench insert|fetch|scan|files|outbox-add|outbox-batch FILE ROWS\n");
        return 2;
    }
    const char *mode = arguments[1];
    long rows = atol(arguments[3]);
    double started = 0, cpu_started = 0;
    if (strcmp(mode, "files") != 0) {
        check(sqlite3_open_v2(arguments[2], &database,
                              SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL), "open");
        check(sqlite3_exec(database, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", NULL, NULL, NULL), "open");
    }
    if (strcmp(mode, "files") == 0) {
        started = now();
        cpu_started = cpu();
        write_files(arguments[2], rows);
    } else if (strncmp(mode, "outbox-", 7) == 0) {
        create_outbox();
        started = now();
        cpu_started = cpu();
        add_to_outbox(rows, strcmp(mode, "outbox-add") == 0);
    } else if (strcmp(mode, "insert") == 0) {
        started = now();
        cpu_started = cpu();
        check(sqlite3_exec(database,
                           "BEGIN IMMEDIATE; CREATE TABLE \"Row\" (id INTEGER PRIMARY KEY NOT NULL, name TEXT, mail TEXT, "
                           "age INTEGER, score REAL, active INTEGER, created REAL, note TEXT)", NULL, NULL, NULL), "create");
        sqlite3_stmt *statement = prepare("INSERT INTO \"Row\" (id, name, mail, age, score, active, created, note) "
                                          "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)");
        for (long id = 0; id < rows; id++) {
            char name[64], mail[64];
            snprintf(name, sizeof name, "User number %ld", id);
            snprintf(mail, sizeof mail, "user%ld@example.org", id);
            sqlite3_bind_int64(statement, 1, id);
            sqlite3_bind_text(statement, 2, name, -1, SQLITE_TRANSIENT);
            sqlite3_bind_text(statement, 3, mail, -1, SQLITE_TRANSIENT);
            sqlite3_bind_int64(statement, 4, id % 90);
            sqlite3_bind_double(statement, 5, id * 0.25);
            sqlite3_bind_int(statement, 6, id % 2 == 0);
            sqlite3_bind_double(statement, 7, 700000000.0 + id);
            if (id % 3 == 0) sqlite3_bind_null(statement, 8);
            else sqlite3_bind_text(statement, 8, "a note of some length", -1, SQLITE_TRANSIENT);
            check(sqlite3_step(statement), "insert");
            sqlite3_reset(statement);
        }
        sqlite3_finalize(statement);
        check(sqlite3_exec(database, "COMMIT", NULL, NULL, NULL), "commit");
    } else if (strcmp(mode, "fetch") == 0) {
        sqlite3_stmt *statement = prepare("SELECT id, name, mail, age, score, active, created, note FROM \"Row\" WHERE id = ?1");
        started = now();
        cpu_started = cpu();
        for (long turn = 0; turn < rows; turn++) {
            struct row row;
            sqlite3_bind_int64(statement, 1, turn * 7919 % rows);
            if (sqlite3_step(statement) != SQLITE_ROW) check(SQLITE_ERROR, "fetch");
            read_row(statement, &row);
            sqlite3_reset(statement);
            free_row(&row);
        }
        sqlite3_finalize(statement);
    } else {
        struct row *all = calloc(rows, sizeof *all);
        sqlite3_stmt *statement = prepare("SELECT id, name, mail, age, score, active, created, note FROM \"Row\"");
        started = now();
        cpu_started = cpu();
        long found = 0;
        while (found < rows && sqlite3_step(statement) == SQLITE_ROW) read_row(statement, &all[found++]);
        sqlite3_finalize(statement);
        for (long index = 0; index < found; index++) free_row(&all[index]);
        free(all);
        if (found != rows) check(SQLITE_ERROR, "scan");
    }
    double used = cpu() - cpu_started, seconds = now() - started;
    printf("{\"program\":\"c sqlite\",\"mode\":\"%s\",\"requests\":%ld,\"seconds\":%.6f,\"cpu_seconds\":%.6f,"
           "\"cpu_us_per_request\":%.4f}\n", mode, rows, seconds, used, used / rows * 1e6);
    sqlite3_close(database);
    return 0;
}
