import HTTPCore

extension ObjectStore {
    /// What a query means, now and after every commit that may have changed it.
    ///
    /// ```swift
    /// for try await users in store.values(of: Query<User>(where: \.age >= 18)) { show(users) }
    /// ```
    ///
    /// The first element comes at once. Then the query is asked again after each commit to the type's table, by this
    /// program or, where the store is a file, by another process; commits while an element is worked on count as one. A
    /// result may be equal to the one before. It ends when the task is cancelled or the store closed.
    public func values<Object: Storable>(of query: Query<Object>) -> StoredValues<Object>
    where Object.ID: Codable & Sendable {
        StoredValues(store: self, query: query)
    }

    /// What a condition means, now and after every commit that may have changed it. See ``values(of:)``.
    public func values<Object: Storable>(
        of type: Object.Type, where condition: Condition<Object> = .all, sortedBy order: [Sorting<Object>] = []
    ) -> StoredValues<Object> where Object.ID: Codable & Sendable {
        StoredValues(store: self, query: Query(where: condition, sortedBy: order))
    }
}

/// The results of a query over time; see ``ObjectStore/values(of:)``.
public struct StoredValues<Object: Storable>: AsyncSequence, Sendable where Object.ID: Codable & Sendable {
    let store: ObjectStore
    let query: Query<Object>

    /// Starts to observe.
    public func makeAsyncIterator() -> Iterator { Iterator(store: store, query: query) }

    /// Waits for commits and asks again.
    public struct Iterator: AsyncIteratorProtocol {
        private let store: ObjectStore
        private let query: Query<Object>
        private var signals: AsyncStream<Void>.Iterator

        init(store: ObjectStore, query: Query<Object>) {
            self.store = store
            self.query = query
            // Before the first look, so that nothing falls between the two.
            let table = TableLayout.table(of: Object.self)
            signals = store.core.changes.signals(for: table, core: store.core).makeAsyncIterator()
        }

        /// The next result; `nil` after cancellation, or when the store was closed.
        ///
        /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/storage``.
        public mutating func next() async throws -> [Object]? {
            guard await signals.next() != nil, !Task.isCancelled else { return nil }
            let query = query
            return try await store.run { try $0.fetch(query) }
        }
    }
}
