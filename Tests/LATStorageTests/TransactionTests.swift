import Foundation
import HTTPCore
import LATStorage
import LATTesting
import Testing

@Suite struct TransactionTests {
    struct Undo: Error {}

    let directory: TemporaryDirectory
    let store: ObjectStore

    init() throws {
        directory = try TemporaryDirectory()
        store = try ObjectStore(path: directory.path(of: "objects.sqlite"))
    }

    @Test func errorRollsBackTheNewTable() throws {
        #expect(throws: Undo.self) {
            try store.transaction { transaction in
                try transaction.insert(User(1))
                #expect(try transaction.count(User.self) == 1)
                throw Undo()
            }
        }
        #expect(try store.fetch(User.self).isEmpty)
        try store.insert(User(1))
        #expect(try store.count(User.self) == 1)
    }

    @Test func innerErrorRollsBackOnlyTheInnerPart() throws {
        try store.transaction { transaction in
            try transaction.insert(User(1))
            #expect(throws: Undo.self) {
                try transaction.transaction { inner in
                    try inner.insert(User(2))
                    try inner.transaction { try $0.insert(User(3)) }
                    throw Undo()
                }
            }
            try transaction.transaction { try $0.insert(User(4)) }
        }
        #expect(try store.fetch(User.self, sortedBy: [.ascending(\.id)]).map(\.id) == [1, 4])
    }

    @Test(.timeLimit(.minutes(1))) func rowsBeforeADuplicateAreSeenByObservers() async throws {
        try store.insert(User(1))
        var values = store.values(of: User.self, sortedBy: [.ascending(\.id)]).makeAsyncIterator()
        #expect(try await values.next()?.map(\.id) == [1])
        try store.transaction { try? $0.insert(contentsOf: [User(2), User(1)]) }
        #expect(try await values.next()?.map(\.id) == [1, 2])
    }

    @Test func storeUseInsideItsTransactionThrows() throws {
        try store.transaction { transaction in
            try transaction.insert(User(1))
            #expect(throws: NetworkError.self) { try store.insert(User(2)) }
        }
        #expect(try store.count(User.self) == 1)
    }

    @Test func endedTransactionThrows() throws {
        var kept: Transaction?
        try store.transaction { kept = $0 }
        let error = #expect(throws: NetworkError.self) { try kept?.insert(User(1)) }
        #expect(error?.storageFailure?.reason == .closed)
    }

    @Test func snapshotSeesOneStateWithoutWaiting() throws {
        try store.insert(User(1))
        try store.snapshot { snapshot in
            #expect(try snapshot.count(User.self) == 1)
            try ObjectStore(path: store.path).insert(User(2))
            #expect(try snapshot.count(User.self) == 1)
            let error = #expect(throws: NetworkError.self) { try snapshot.insert(User(3)) }
            #expect(error?.storageFailure?.reason == .readOnly)
        }
        #expect(try store.count(User.self) == 2)
    }

    @Test func snapshotInMemoryIsReadOnlyToo() throws {
        let store = try ObjectStore.inMemory()
        try store.insert(User(1))
        try store.snapshot { snapshot throws in
            #expect(try snapshot.count(User.self) == 1)
            let error = #expect(throws: NetworkError.self) { try snapshot.insert(User(2)) }
            #expect(error?.storageFailure?.reason == .readOnly)
        }
        #expect(try store.count(User.self) == 1)
    }

    @Test func concurrentTasksLoseNoWrite() async throws {
        let store = store
        try await withThrowingTaskGroup(of: Void.self) { group in
            for task in 0..<8 {
                group.addTask {
                    for number in 0..<40 {
                        try await store.run { store in
                            try store.insert(User(task * 1_000 + number))
                            _ = try store.fetch(User.self, where: \.age > 1)
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(try store.count(User.self) == 320)
    }
}
