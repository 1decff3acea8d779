public import HTTPCore
import LATClient
import Platform
import Synchronization

/// A queue of downloads with a limit and priorities, saved in a folder to survive restarts of the process.
///
/// ```swift
/// let manager = try DownloadManager(central, folder: "/var/lib/app/downloads", limit: 3)
/// // Downloads that an earlier process did not finish have started already.
/// let id = try manager.add("https://example.org/big.iso", to: "/srv/images/", segments: 4, priority: .high)
/// for await event in manager.events {
///     if case .finished(let item, let file) = event { print(item.url, file.path) }
/// }
/// ```
///
/// The manager saves only what it can request again without the app: GET requests, with URL, path and ``DownloadOptions``.
/// The hook for new links cannot be saved, so the app passes it again when it creates the manager. Headers given to
/// ``add(_:to:segments:priority:headers:options:)`` are saved too, readable for their owner only. Secrets that change belong
/// in ``CentralRequestManager/Configuration/headerProvider`` instead.
///
/// Releasing the manager stops its downloads and keeps their progress; ``close()`` also waits until they have stopped.
public final class DownloadManager: Sendable {
    private let central: CentralRequestManager
    private let folder: DownloadFolder
    private let state: Mutex<State>
    /// Held while a record is written or removed, so that the newest one is written last. Taken before the lock of the state.
    private let records = Mutex(())
    private let refreshURL: LinkRefresh?
    private let hub = EventHub<Event>()

    /// Creates a manager and continues the downloads that the folder has records of. Paused ones stay paused.
    ///
    /// - Parameters:
    ///   - central: The manager that sends the requests.
    ///   - folder: The folder of the records, created if needed. Only one manager at a time can use it.
    ///   - limit: The maximum number of downloads that run at once. Default 3.
    ///   - refreshURL: Supplies a new URL when the server refuses one; see ``DownloadOptions/refreshURL``. The option
    ///     of a single download overrides it until the process ends.
    /// - Throws: ``NetworkError/Kind/storage`` if the folder cannot be used, or another manager uses it.
    public init(
        _ central: CentralRequestManager, folder: String, limit: Int = 3, refreshURL: LinkRefresh? = nil
    ) throws {
        self.central = central
        self.folder = try DownloadFolder(PathParts.absolute(folder))
        self.refreshURL = refreshURL
        state = Mutex(State(queue: DownloadQueue(limit: limit)))
        let (known, unreadable, lastNumber) = self.folder.load()
        unreadableFiles = unreadable
        let completed = known.reduce(into: [:]) { files, record in files[record.number] = record.completedFile }
        let actions = state.withLock { state in
            var actions = DownloadQueue.Actions()
            state.lastNumber = lastNumber
            for record in known {
                var item = record.item
                let entry = Entry(headers: record.requestHeaders, options: record.options(refreshURL))
                if let file = completed[record.number] {
                    item.state = .finished
                    entry.finish(file)
                }
                state.entries[item.id] = entry
                actions.start += state.queue.add(item).start
            }
            return actions
        }
        for record in known where completed[record.number] != nil {
            // What the earlier process did not come to.
            central.discardDownload(
                record.url, to: record.path, headers: record.requestHeaders, record.options(nil), identity: nil)
            forget(record.item.id)
        }
        perform(actions)
    }

    deinit {
        let (downloads, entries) = state.withLock { ($0.downloads.values, $0.entries.values) }
        for download in downloads { download.cancel(keepingProgress: true) }
        for entry in entries { entry.progress.finish() }
        hub.finish()
    }

    /// The files in the folder that are damaged, or of another version of this package. They are left unchanged.
    public let unreadableFiles: [String]

    // MARK: State

    /// All downloads, in the order in which they start.
    public var items: [Item] {
        state.withLock { state in state.queue.ordered.map { state.withProgress($0) } }
    }

    /// A download; `nil` if the manager has none with this identifier.
    public func item(_ id: Item.ID) -> Item? {
        state.withLock { state in state.queue.items[id].map { state.withProgress($0) } }
    }

    /// The events from now on. Every reader gets every event. The stream ends when the manager is closed or
    /// released.
    public var events: AsyncStream<Event> { hub.events() }

    /// The progress of a download across its pauses, until the download finishes or is removed, or the manager is closed or
    /// released; `nil` if the manager has none with this identifier.
    public func progress(of id: Item.ID) -> (some AsyncSequence<TransferProgress, Never> & Sendable)? {
        state.withLock { $0.entries[id] }.map { ProgressUpdates($0.progress) }
    }

    /// The file of a download, once it is complete.
    ///
    /// - Throws: The last error of the download; ``NetworkError/Kind/cancelled`` if it is removed;
    ///   ``NetworkError/Kind/unknownName`` if there is none with this identifier; `CancellationError` if the current
    ///   task is cancelled.
    public func value(of id: Item.ID) async throws -> DownloadedFile {
        guard let entry = state.withLock({ $0.entries[id] }) else {
            throw NetworkError(
                .unknownName, message: "there is no download \(id) in this manager; look for it in items")
        }
        for await outcome in entry.outcome.values() {
            if let outcome { return try outcome.get() }
        }
        throw CancellationError()
    }

    // MARK: Control

    /// The maximum number of downloads that run at once.
    public var limit: Int {
        get { state.withLock(\.queue.limit) }
        set { perform(state.withLock { $0.queue.setLimit(newValue) }) }
    }

    /// Adds a download after those of the same priority, and saves its record.
    ///
    /// The parameters are those of ``CentralRequestManager/download(_:to:segments:headers:options:)``, with a
    /// priority. Default ``RequestPriority/normal``.
    ///
    /// - Throws: ``NetworkError/Kind/storage`` if the record cannot be saved, and ``NetworkError/Kind/shutDown`` after
    ///   ``close()``. The download is not added then.
    @discardableResult
    public func add(
        _ url: some URLConvertible, to path: String, segments: Int = 1, priority: RequestPriority = .normal,
        headers: HTTPHeaders = HTTPHeaders(), options: DownloadOptions = DownloadOptions()
    ) throws -> Item.ID {
        var options = options
        options.refreshURL = options.refreshURL ?? refreshURL
        let number = state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        let item = Item(
            id: .init(number: number), url: RequestBuilder.absoluteURL(url.urlText, base: central.baseURL),
            // A later process may have another current directory.
            path: path.isEmpty ? path : PathParts.absolute(path), segments: segments, priority: priority,
            state: options.startsPaused ? .paused : .waiting,
            progress: TransferProgress(direction: .download))
        options.startsPaused = false
        let entry = Entry(headers: headers, options: options)
        let actions = try records.withLock { _ in
            guard !state.withLock(\.isClosed) else { throw Self.closed }
            try folder.save(DownloadRecord(item, headers: headers, options: options), isNew: true)
            hub.send(.added(item))
            return state.withLock { state in
                state.entries[item.id] = entry
                return state.queue.add(item)
            }
        }
        perform(actions)
        return item.id
    }

    /// Pauses a download that waits or runs, closes its connections, and saves the new state.
    public func pause(_ id: Item.ID) { change(id) { $0.queue.pause(id) } }

    /// Puts a paused or failed download back into the queue.
    public func resume(_ id: Item.ID) { change(id) { $0.queue.resume(id) } }

    /// Pauses all downloads.
    public func pauseAll() {
        // In reverse order. Otherwise each pause would start a waiting download, which the next one would pause.
        for item in items.reversed() { pause(item.id) }
    }

    /// Puts all paused and failed downloads back into the queue.
    public func resumeAll() {
        for item in items { resume(item.id) }
    }

    /// Changes the priority of a download. A running one continues.
    public func setPriority(_ priority: RequestPriority, of id: Item.ID) {
        change(id) { $0.queue.setPriority(priority, of: id) }
    }

    /// Removes a download in any state, and its record.
    ///
    /// - Parameters:
    ///   - id: The download.
    ///   - keepingProgress: Whether received bytes are kept beside the target. Default `false`: they are removed once
    ///     the download has stopped. A finished file is always kept.
    public func remove(_ id: Item.ID, keepingProgress: Bool = false) {
        guard let item = item(id) else { return }
        let removed = state.withLock { state -> (Download?, Entry, DownloadQueue.Actions)? in
            guard !state.isClosed, let entry = state.entries.removeValue(forKey: id) else { return nil }
            if state.starting[id] != nil { state.starting[id] = keepingProgress }
            return (state.downloads.removeValue(forKey: id), entry, state.queue.remove(id))
        }
        guard let (download, entry, actions) = removed else { return }
        forget(id)
        if let download {
            download.cancel(keepingProgress: keepingProgress)
        } else if !keepingProgress, item.state != .finished {
            central.discardDownload(
                item.url, to: item.path, headers: entry.headers, entry.options, identity: entry.identity)
        }
        perform(actions)
        entry.progress.finish(entry.progress.current)
        entry.outcome.finish(
            entry.outcome.current
                ?? .failure(NetworkError(.cancelled, message: "the download was removed from its manager")))
        hub.send(.removed(item))
    }

    /// Stops all downloads, keeps their progress and records, and releases the folder for another manager. Tasks that
    /// wait for a file get ``NetworkError/Kind/shutDown``. Afterwards nothing can be added, and pausing, resuming, removing
    /// and setting a priority have no effect.
    public func close() async {
        let closing = records.withLock { _ in
            state.withLock { state -> Task<Void, Never> in
                if let closing = state.closing { return closing }
                let allStarted = state.starting.isEmpty ? nil : Waiter<Void>()
                let (downloads, entries) = (Array(state.downloads.values), Array(state.entries.values))
                let closing = Task { await self.stop(downloads, entries, allStarted) }
                state.allStarted = allStarted
                state.downloads = [:]
                state.closing = closing
                return closing
            }
        }
        await closing.value
    }

    private func stop(_ downloads: [Download], _ entries: [Entry], _ allStarted: Waiter<Void>?) async {
        for download in downloads { download.cancel(keepingProgress: true) }
        _ = try? await allStarted?.value()
        for download in downloads + state.withLock(\.late) { _ = try? await download.value }
        for entry in entries {
            entry.progress.finish(entry.progress.current)
            entry.outcome.finish(entry.outcome.current ?? .failure(Self.closed))
        }
        hub.finish()
        folder.unlock()
    }

    static let closed = NetworkError(
        .shutDown, message: "the download manager was closed; create a new one for its folder")

    // MARK: Internal

    private func change(_ id: Item.ID, _ change: (inout State) -> DownloadQueue.Actions) {
        let changed = state.withLock { state -> (Item?, Item?, DownloadQueue.Actions)? in
            guard !state.isClosed else { return nil }
            let before = state.queue.items[id]
            let actions = change(&state)
            return (before, state.queue.items[id], actions)
        }
        guard let (before, after, actions) = changed else { return }
        if let after, before?.state != after.state || before?.priority != after.priority {
            remember(id)
            if !actions.start.contains(id) { hub.send(.changed(after)) }
        }
        perform(actions)
    }

    /// - Parameter isFinishing: Whether the file is about to get its name. The record is then on the disk when this returns.
    private func remember(_ id: Item.ID, isFinishing: Bool = false) {
        records.withLock { _ in
            let (item, entry, isClosed) = state.withLock { ($0.queue.items[id], $0.entries[id], $0.isClosed) }
            // A finished or removed download has no record. After `close()`, another manager may use the folder.
            guard let item, let entry, item.state != .finished, !isClosed || isFinishing else { return }
            do throws(NetworkError) {
                try folder.save(
                    DownloadRecord(
                        item, headers: entry.headers, options: entry.options, finished: entry.finished),
                    synchronizes: isFinishing)
            } catch {
                hub.send(.trouble(error))
            }
        }
    }

    private func forget(_ id: Item.ID) {
        records.withLock { _ in folder.remove(id.number) }
    }

    private func perform(_ actions: DownloadQueue.Actions) {
        for id in actions.stop {
            follow(id)
            if let item = item(id), item.state == .waiting { hub.send(.changed(item)) }
        }
        for id in actions.start { start(id) }
    }

    private func start(_ id: Item.ID) {
        let found = state.withLock { state -> (item: Item, entry: Entry, isKnown: Bool)? in
            guard !state.isClosed, let item = state.queue.items[id], let entry = state.entries[id] else { return nil }
            let isKnown = state.downloads[id] != nil || state.starting[id] != nil
            if !isKnown { state.starting[id] = true }
            return (state.withProgress(item), entry, isKnown)
        }
        guard let found else { return }
        hub.send(.changed(found.item))
        guard !found.isKnown else { return follow(id) }
        let entry = found.entry
        entry.outcome.send(nil)
        var options = entry.options
        options.willFinish = { [weak self] file in
            self?.state.withLock { $0.entries[id]?.finished = file }
            self?.remember(id, isFinishing: true)
        }
        let download = central.download(
            found.item.url, to: found.item.path, segments: found.item.segments, headers: entry.headers,
            options: options)
        let (isWanted, keepsProgress, allStarted) = state.withLock { state -> (Bool, Bool, Waiter<Void>?) in
            let keepsProgress = state.starting.removeValue(forKey: id) ?? true
            state.entries[id]?.identity = download.identity
            let isWanted = state.entries[id] != nil && !state.isClosed
            if isWanted { state.downloads[id] = download } else if state.isClosed { state.late.append(download) }
            return (isWanted, keepsProgress, state.starting.isEmpty ? state.allStarted : nil)
        }
        defer { allStarted?.end(.success(())) }
        guard isWanted else { return download.cancel(keepingProgress: keepsProgress) }
        // The download may have been paused while it was made.
        follow(id)
        Task {
            for await progress in download.progress { entry.progress.send(progress) }
        }
        Task { [weak self] in
            do {
                let file = try await download.value
                self?.end(id, download, .success(file))
            } catch {
                let error = error as? NetworkError ?? NetworkError(.other, message: "\(error)", underlying: error)
                self?.end(id, download, .failure(error))
            }
        }
    }

    /// Pauses or resumes a download as the queue says, again if the queue has changed meanwhile.
    private func follow(_ id: Item.ID) {
        var applied: Bool?
        while let (download, runs) = state.withLock({ state in
            state.downloads[id].map { ($0, state.queue.items[id]?.state == .running) }
        }), runs != applied {
            if runs { download.resume() } else { download.pause() }
            applied = runs
        }
    }

    private func end(
        _ id: Item.ID, _ download: Download, _ result: Result<DownloadedFile, NetworkError>
    ) {
        let outcome: Item.State =
            switch result {
            case .success: .finished
            case .failure(let error): .failed(error.message)
            }
        let ended = state.withLock { state -> (Item, Entry, DownloadQueue.Actions)? in
            // If the download was removed, that has been reported already.
            guard state.downloads[id] === download, let entry = state.entries[id] else { return nil }
            state.downloads[id] = nil
            let actions = state.queue.end(id, outcome)
            return state.queue.items[id].map { (state.withProgress($0), entry, actions) }
        }
        guard let (item, entry, actions) = ended else { return }
        switch result {
        case .success(let file):
            forget(id)
            entry.progress.finish(download.currentProgress)
            entry.outcome.finish(result)
            hub.send(.finished(item, file))
        case .failure(let error):
            entry.outcome.send(result)
            hub.send(.failed(item, error))
        }
        perform(actions)
    }
}
