#ifndef LAT_CSQLITE_SHIMS_H
#define LAT_CSQLITE_SHIMS_H

#include <stdint.h>
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

// The address at which a connection maps the header of the WAL index (https://www.sqlite.org/walformat.html, "The WAL-Index
// Header") after its first read; NULL without shared memory. It stays mapped while the connection is open.
static inline const void *lat_sqlite3_shared_header(sqlite3 *database) {
    sqlite3_file *file = 0;
    if (sqlite3_file_control(database, "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK) return 0;
    if (!file || !file->pMethods || file->pMethods->iVersion < 2 || !file->pMethods->xShmMap) return 0;
    void volatile *region = 0;
    // The size that SQLite itself maps.
    if (file->pMethods->xShmMap(file, 0, 32768, 0, &region) != SQLITE_OK) return 0;
    return (const void *)region;
}

// aCksum of that header: a checksum of the fields before it, which changes with each commit.
static inline uint64_t lat_wal_checksum(const void *header) {
    return header ? __atomic_load_n((const uint64_t *)((const char *)header + 40), __ATOMIC_ACQUIRE) : 0;
}

#endif
