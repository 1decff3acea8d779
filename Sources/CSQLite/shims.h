#ifndef LAT_CSQLITE_SHIMS_H
#define LAT_CSQLITE_SHIMS_H

#include <sqlite3.h>

// SQLITE_TRANSIENT is a cast of -1 to a function pointer, which Swift does not import.
static inline int lat_sqlite3_bind_text(sqlite3_stmt *statement, int index, const char *text, int count) {
    return sqlite3_bind_text(statement, index, text, count, SQLITE_TRANSIENT);
}

static inline int lat_sqlite3_bind_blob(sqlite3_stmt *statement, int index, const void *bytes, int count) {
    return count == 0 ? sqlite3_bind_zeroblob(statement, index, 0)
                      : sqlite3_bind_blob(statement, index, bytes, count, SQLITE_TRANSIENT);
}

// sqlite3_db_config takes a variable number of arguments.
static inline int lat_sqlite3_db_config(sqlite3 *database, int option, int value) {
    return sqlite3_db_config(database, option, value, (int *)0);
}

// Text that lasts as long as the program, so that SQLite need not copy it.
static inline int lat_sqlite3_bind_not_a_number(sqlite3_stmt *statement, int index) {
    return sqlite3_bind_text(statement, index, "NaN", 3, SQLITE_STATIC);
}

static inline int lat_sqlite3_bind_empty_text(sqlite3_stmt *statement, int index) {
    return sqlite3_bind_text(statement, index, "", 0, SQLITE_STATIC);
}

// syncfs(2), which unistd.h has with _GNU_SOURCE only.
extern int syncfs(int descriptor);

static inline int lat_syncfs(int descriptor) { return syncfs(descriptor); }

#endif
