import CLibcurl
import FoundationEssentials
import HTTPCore

/// The one thread that talks to the network: `epoll_wait`, libcurl's multi
/// handle driven by sockets and one timer, and the mailbox.
///
/// It decides nothing about requests but what has to be decided where the
/// bytes are: which of them may start (``AdmissionQueue``), when one has been
/// silent for too long (``IdleWatch``), when a body is too large. Everything in
/// it belongs to its thread.
final class Engine: @unchecked Sendable {
    // Sendable: made on the caller's thread, then used by its own thread only. That is also why the state every request
    // touches goes without Swift's run-time check of exclusive access, which costs some 3 % of a request.

    enum Command: Sendable {
        case start(Transfer)
        case cancel(Transfer)
        /// Something about a transfer has changed: it is held or let go on, its reader caught up, its body has more.
        case update(Transfer)
        case gauges(UnsafeContinuation<EngineGauges, Never>)
        /// Something for what the thread does beside transfers; without it when the engine is at its end.
        case side(@Sendable (EngineSide?) -> Void)
        /// Something to do with the cookies; without them when the engine is at its end.
        case cookies(@Sendable (CookieStore?) -> Void)
        case shutDown(UnsafeContinuation<Void, Never>?)
    }

    let configuration: EngineConfiguration
    let tls: TLSMaterial
    let share: UnsafeMutableRawPointer
    /// The cookies, when they are kept.
    @exclusivity(unchecked) private(set) var cookies: CookieStore?
    /// Decides where connections may go, when that is limited.
    let addressGuard: AddressGuard?
    let mailbox: Mailbox<Command>
    /// Gives the thread's spare moments to tasks.
    let executor: EngineExecutor

    private let multi: UnsafeMutableRawPointer
    private let epoll: CInt
    @exclusivity(unchecked) private var sockets: SocketTable
    @exclusivity(unchecked) private var queue: AdmissionQueue<Transfer>
    @exclusivity(unchecked) private var idleWatch = IdleWatch()
    @exclusivity(unchecked) private var handles: [EasyHandle] = []
    @exclusivity(unchecked) private var freeHandles: [EasyHandle] = []
    @exclusivity(unchecked) private var runningCount = 0
    @exclusivity(unchecked) private var commands: [Command] = []
    @exclusivity(unchecked) private var jobs: [UnownedJob] = []
    /// Suspended before they started; they are in nobody's way.
    @exclusivity(unchecked) private var held: Set<Transfer> = []
    @exclusivity(unchecked) private var pipesWithNews: [Transfer] = []
    /// Ended by the loop and not on the spot, since the end of one starts the next.
    @exclusivity(unchecked) private var failedStarts: [(Transfer, NetworkError)] = []
    /// The transfers are let go of by now, so that their callers' threads free them.
    @exclusivity(unchecked) private var answers: [(Transfer.Caller, Result<HTTPResponse, NetworkError>)] = []
    @exclusivity(unchecked) private var timer = MonotonicTime.distantFuture
    @exclusivity(unchecked) private var now = MonotonicTime.now
    @exclusivity(unchecked) private var isShuttingDown = false
    /// What libcurl was told; 0 for no limit.
    @exclusivity(unchecked) private var hostLimit = 0
    @exclusivity(unchecked) private var capacity: ConnectionCapacity
    @exclusivity(unchecked) private var shutdownWaiters: [UnsafeContinuation<Void, Never>] = []
    /// Connect probes and the watch over the network, from the thread's start to its end.
    @exclusivity(unchecked) private var side: EngineSide?

    /// A server's word for the size of a body is believed up to here; beyond, memory grows with what comes.
    private static let reserveLimit: Int64 = 16 << 20
    /// More unused handles than this are freed.
    private static let handlePoolLimit = 256
    /// How often in one turn tasks may go on that the turn itself has made ready. More would keep the network waiting.
    private static let jobRounds = 4

    init(
        _ configuration: EngineConfiguration, proxies: ProxySettings, tls: TLSMaterial, addressGuard: AddressGuard?
    ) throws(NetworkError) {
        try GlobalCurl.start()
        guard let mailbox = Mailbox<Command>() else { throw EngineFailure.noResources("an eventfd") }
        let epoll = epoll_create1(CInt(EPOLL_CLOEXEC))
        guard epoll >= 0 else { throw EngineFailure.noResources("an epoll descriptor") }
        guard let multi = curl_multi_init() else {
            close(epoll)
            throw EngineFailure.noResources("memory for libcurl")
        }
        guard let share = curl_share_init() else {
            curl_multi_cleanup(multi)
            close(epoll)
            throw EngineFailure.noResources("memory for libcurl")
        }
        do {
            if configuration.cookies != .off {
                cookies = try CookieStore(configuration.cookies, share: share, warn: configuration.warn)
            }
        } catch {
            curl_multi_cleanup(multi)
            curl_share_cleanup(share)
            close(epoll)
            throw error
        }
        self.configuration = configuration
        self.tls = tls
        self.addressGuard = addressGuard
        self.mailbox = mailbox
        executor = EngineExecutor(mailbox: mailbox)
        self.epoll = epoll
        self.multi = multi
        self.share = share
        sockets = SocketTable(epoll: epoll)
        queue = AdmissionQueue(totalLimit: max(1, configuration.maxConnections ?? .max))
        capacity = ConnectionCapacity(
            maxIdle: configuration.maxIdleConnections, perHost: configuration.maxConnectionsPerHost)
        _ = lat_share_setopt_long(share, CURLSHOPT_SHARE, Int(CURL_LOCK_DATA_SSL_SESSION.rawValue))
        let context = Unmanaged.passUnretained(self).toOpaque()
        _ = lat_multi_setopt_socket(multi, socketCallback)
        _ = lat_multi_setopt_pointer(multi, CURLMOPT_SOCKETDATA, context)
        _ = lat_multi_setopt_timer(multi, timerCallback)
        _ = lat_multi_setopt_pointer(multi, CURLMOPT_TIMERDATA, context)
        _ = lat_multi_setopt_long(multi, CURLMOPT_MAXCONNECTS, capacity.value)
        // The queue keeps the limit; this keeps it where HTTP/2 needs more than one connection. Through a proxy
        // libcurl would count all origins as one host.
        if proxies.isEmpty {
            hostLimit = max(1, configuration.maxConnectionsPerHost)
            _ = lat_multi_setopt_long(multi, CURLMOPT_MAX_HOST_CONNECTIONS, hostLimit)
        }
        _ = lat_epoll_ctl(epoll, EPOLL_CTL_ADD, mailbox.descriptor, EPOLLIN.rawValue | EPOLLET.rawValue)
    }

    static func from(_ context: UnsafeMutableRawPointer) -> Engine {
        Unmanaged<Engine>.fromOpaque(context).takeUnretainedValue()
    }

    func wholeSeconds(_ duration: Duration) -> Int {
        max(1, Int((duration.roundedUpMilliseconds + 999) / 1000))
    }

    // MARK: The loop

    /// Runs until a command shuts it down.
    func run() {
        lat_block_sigpipe()
        mailbox.open()
        let side = EngineSide(engine: self, epoll: epoll)
        self.side = side
        let capacity = 256
        let events = UnsafeMutablePointer<epoll_event>.allocate(capacity: capacity)
        defer { events.deallocate() }
        while !isShuttingDown {
            let count = epoll_wait(epoll, events, CInt(capacity), waitTime())
            now = .now
            takeCommands()
            for index in 0..<max(0, Int(count)) { handleEvent(events + index) }
            // Once a turn: a fast transfer asks to be run again at once, and would keep the others and its own reader
            // waiting for as long as there is data.
            if timer <= now { fireTimer() }
            if side.isDue(now) { side.turn(now) }
            finishTransfers()
            if idleWatch.isDue(now) { endSilentTransfers() }
            deliverChunks()
            saveCookies()
            deliverAnswers()
            if mailbox.hasJobs { runJobs() }
        }
        shutDown()
    }

    /// Lets the tasks go on that run on this thread, and sends their next requests in the same turn.
    private func runJobs() {
        let executor = self.executor.asUnownedTaskExecutor()
        for _ in 0..<Self.jobRounds where mailbox.hasJobs && !isShuttingDown {
            mailbox.takeJobs(into: &jobs)
            for job in jobs { job.runSynchronously(on: executor) }
            jobs.removeAll(keepingCapacity: true)
            now = .now
            takeOwnCommands()
        }
        if timer <= now { fireTimer() }
        finishTransfers()
    }

    private func waitTime() -> CInt {
        guard failedStarts.isEmpty, answers.isEmpty, pipesWithNews.isEmpty, mailbox.prepareToSleep() else { return 0 }
        let next = min(timer, idleWatch.next, side?.due ?? .distantFuture)
        guard next != .distantFuture else { return -1 }
        return CInt(min(MonotonicTime.now.milliseconds(until: next), 3_600_000))
    }

    private func handleEvent(_ event: UnsafeMutablePointer<epoll_event>) {
        let descriptor = lat_epoll_fd(event)
        guard descriptor != mailbox.descriptor, side?.noted(descriptor) != true, sockets.isWanted(descriptor) else {
            return
        }
        let bits = event.pointee.events
        var what: CInt = 0
        if bits & EPOLLIN.rawValue != 0 { what |= CURL_CSELECT_IN }
        if bits & EPOLLOUT.rawValue != 0 { what |= CURL_CSELECT_OUT }
        if bits & (EPOLLERR.rawValue | EPOLLHUP.rawValue) != 0 { what |= CURL_CSELECT_ERR }
        var running: CInt = 0
        curl_multi_socket_action(multi, descriptor, what, &running)
    }

    private func fireTimer() {
        timer = .distantFuture
        var running: CInt = 0
        curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running)
    }

    private func takeCommands() {
        mailbox.take(into: &commands)
        performCommands()
        takeOwnCommands()
    }

    private func takeOwnCommands() {
        mailbox.takeOwn(into: &commands)
        performCommands()
    }

    private func performCommands() {
        guard !commands.isEmpty else { return }
        for command in commands { perform(command) }
        commands.removeAll(keepingCapacity: true)
    }

    private func perform(_ command: Command) {
        switch command {
        case .start(let transfer): submit(transfer)
        case .cancel(let transfer): end(transfer, EngineFailure.cancelled)
        case .update(let transfer): update(transfer)
        case .gauges(let continuation): continuation.resume(returning: gauges)
        case .side(let work): work(side)
        case .cookies(let body): body(cookies)
        case .shutDown(let waiter):
            isShuttingDown = true
            if let waiter { shutdownWaiters.append(waiter) }
        }
    }

    private var gauges: EngineGauges {
        EngineGauges(easyHandles: handles.count, sockets: sockets.openCount, isRunning: true)
    }

    // MARK: Starting

    private func submit(_ transfer: Transfer) {
        guard transfer.phase == .new else { return }
        transfer.setPhase(.held)
        transfer.submittedAt = now
        guard !transfer.isCancelledEarly else { return over(transfer, .failure(EngineFailure.cancelled)) }
        if let standing = transfer.owner?.standing {
            guard !standing.isCancelled else { return over(transfer, .failure(EngineFailure.cancelled)) }
            transfer.isSuspended = standing.isSuspended
            transfer.priority = max(standing.priority, transfer.priority)
        }
        if transfer.isSuspended { held.insert(transfer) } else { admit(transfer) }
    }

    private func admit(_ transfer: Transfer) {
        let (place, mayStart) = queue.submit(
            transfer, host: transfer.target.origin, priority: transfer.priority,
            limit: transfer.plan.maxConnectionsPerHost)
        transfer.place = place
        if mayStart {
            start(transfer)
        } else {
            transfer.setPhase(.waiting)
        }
    }

    private func start(_ transfer: Transfer) {
        transfer.setPhase(.running)
        runningCount += 1
        if capacity.note(running: runningCount, now) { setCapacity() }
        transfer.startedAt = now
        transfer.attemptStartedAt = now
        guard let handle = takeHandle() else {
            return failedStarts.append((transfer, EngineFailure.noResources("memory for a libcurl handle")))
        }
        transfer.handle = handle
        for source in transfer.plan.body?.sources ?? [] {
            source.start { [mailbox, weak transfer] in
                if let transfer { mailbox.post(.update(transfer)) }
            }
        }
        do {
            try handle.prepare(for: transfer)
        } catch {
            return failedStarts.append((transfer, error))
        }
        raiseHostLimit(to: transfer.plan.maxConnectionsPerHost)
        let code = curl_multi_add_handle(multi, handle.curl)
        if code != CURLM_OK { return failedStarts.append((transfer, EngineFailure.multi(code))) }
        if transfer.plan.idleTimeout > 0 { idleWatch.note(now + transfer.plan.idleTimeout) }
    }

    /// libcurl has one limit for all hosts: the largest that any of them has. The queue keeps each host to its own.
    private func raiseHostLimit(to limit: Int) {
        if capacity.raise(perHost: limit) { setCapacity() }
        guard hostLimit > 0, limit > hostLimit else { return }
        hostLimit = limit
        _ = lat_multi_setopt_long(multi, CURLMOPT_MAX_HOST_CONNECTIONS, limit)
    }

    private func setCapacity() { _ = lat_multi_setopt_long(multi, CURLMOPT_MAXCONNECTS, capacity.value) }

    private func takeHandle() -> EasyHandle? {
        if let handle = freeHandles.popLast() { return handle }
        guard let handle = EasyHandle(engine: self, slot: handles.count) else { return nil }
        handles.append(handle)
        return handle
    }

    private func giveBack(_ handle: EasyHandle) {
        handle.finish()
        freeHandles.append(handle)
        // A burst's handles are let go when no burst is on.
        guard runningCount == 0, handles.count > Self.handlePoolLimit else { return }
        handles.removeLast(handles.count - Self.handlePoolLimit)
        freeHandles.removeAll { $0.slot >= Self.handlePoolLimit }
    }

    // MARK: Ending

    private func finishTransfers() {
        while let (transfer, error) = failedStarts.popLast() { over(transfer, .failure(error)) }
        var left: CInt = 0
        while let message = curl_multi_info_read(multi, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let curl = message.pointee.easy_handle else { continue }
            let result = lat_message_result(message)
            var context: UnsafePointer<CChar>?
            guard lat_getinfo_string(curl, CURLINFO_PRIVATE, &context) == CURLE_OK, let context else { continue }
            let handle = EasyHandle.from(UnsafeMutableRawPointer(mutating: context))
            guard let transfer = handle.transfer else { continue }
            conclude(transfer, handle, result)
        }
    }

    /// libcurl is through with a transfer.
    private func conclude(_ transfer: Transfer, _ handle: EasyHandle, _ result: CURLcode) {
        if result != CURLE_OK, sendsAgain(transfer, handle, result) { return }
        let timings = handle.timings(of: transfer, isOver: true)
        reportLastProgress(transfer, handle, isWhole: result == CURLE_OK && transfer.failure == nil)
        guard result == CURLE_OK, transfer.failure == nil, transfer.head.isComplete else {
            let error =
                transfer.failure.map { EngineFailure.complete($0, transfer, timings) }
                ?? EngineFailure.describe(result, handle: handle, transfer: transfer, timings: timings, now: now)
            return over(transfer, .failure(error))
        }
        if isProxyRefusal(transfer) {
            return over(transfer, .failure(EngineFailure.proxyWantsCredentials(transfer, timings)))
        }
        transfer.target.noteBodySize(transfer.body.count)
        over(transfer, .success(response(of: transfer, timings: timings)))
    }

    /// Whether the request of a failed transfer goes out again; then it is on its way.
    private func sendsAgain(_ transfer: Transfer, _ handle: EasyHandle, _ result: CURLcode) -> Bool {
        guard transfer.failure == nil, transfer.connectionsUsed > 0, !transfer.head.hasBegun else { return false }
        let isUnsent = handle.long(CURLINFO_REQUEST_SIZE) == transfer.bytesSentBefore
        let isRefused = result == CURLE_HTTP2_STREAM && handle.errorText.contains("REFUSED_STREAM")
        let replay = Replay(
            fate: isUnsent ? .unsent : isRefused ? .refused : .unknown,
            isIdempotent: transfer.request.method.isIdempotent, isMultiplexed: isMultiplexed(transfer))
        let isReused = handle.long(CURLINFO_NUM_CONNECTS) == 0
        let plan = transfer.plan
        let timeLeft = plan.timeout - (now.nanoseconds - transfer.startedAt.nanoseconds) / 1_000_000
        guard replay.followsFailure(result, isReused: isReused, replays: transfer.replays),
            plan.timeout == 0 || timeLeft > 0,
            transfer.sourceBytes == 0 || plan.body?.sources.allSatisfy({ $0.rewind() }) ?? true
        else { return false }
        transfer.prepareReplay(now)
        curl_multi_remove_handle(multi, handle.curl)
        handle.finish()
        do throws(NetworkError) {
            try handle.prepareReplay(of: transfer, timeout: plan.timeout == 0 ? 0 : timeLeft)
            let code = curl_multi_add_handle(multi, handle.curl)
            if code != CURLM_OK { throw EngineFailure.multi(code) }
        } catch {
            over(transfer, .failure(error))
        }
        return true
    }

    private func isMultiplexed(_ transfer: Transfer) -> Bool { transfer.place.map(queue.isMultiplexed) ?? false }

    /// The engine itself ends a transfer, wherever it is.
    private func end(_ transfer: Transfer, _ error: NetworkError) {
        switch transfer.phase {
        case .new:
            transfer.isCancelledEarly = true
        case .held:
            held.remove(transfer)
            over(transfer, .failure(error))
        case .waiting:
            takeOutOfQueue(transfer)
            over(transfer, .failure(error))
        case .running:
            over(transfer, .failure(error))
        case .over:
            break
        }
    }

    private func over(_ transfer: Transfer, _ result: Result<HTTPResponse, NetworkError>) {
        let wasRunning = transfer.phase == .running
        transfer.setPhase(.over)
        if let handle = transfer.handle {
            transfer.handle = nil
            curl_multi_remove_handle(multi, handle.curl)
            runningCount -= 1
            giveBack(handle)
        } else if wasRunning {
            runningCount -= 1
        }
        if capacity.note(running: runningCount, now) { setCapacity() }
        for source in transfer.plan.body?.sources ?? [] { source.stop() }
        transfer.owner?.detach(transfer)
        if wasRunning { startNext(after: transfer) }
        // The reader's end holds the engine from here on, if anybody does.
        transfer.keepAlive = nil
        transfer.pipe?.finish(result.map { _ in })
        if let caller = transfer.takeCaller() { answers.append((caller, result)) }
    }

    /// Gives what ended in this turn to its callers. All at once: the first wakes a thread, and while that runs the
    /// others need no waking.
    private func deliverAnswers() {
        guard !answers.isEmpty else { return }
        for (caller, result) in answers { Transfer.answer(caller, result) }
        answers.removeAll(keepingCapacity: true)
    }

    private func startNext(after transfer: Transfer) {
        guard let place = transfer.place else { return }
        if transfer.head.hasBegun {
            let isMultiplexed = transfer.head.version == .http2 || transfer.head.version == .http3
            for next in queue.setMultiplexed(isMultiplexed, at: place) { start(next) }
        }
        for next in queue.finish(place) { start(next) }
    }

    private func takeOutOfQueue(_ transfer: Transfer) {
        if let place = transfer.place { queue.remove(transfer, at: place, priority: transfer.priority) }
    }

    private func response(of transfer: Transfer, timings: Timings) -> HTTPResponse {
        HTTPResponse(
            status: transfer.head.status, reason: transfer.head.reason, version: transfer.head.version,
            headers: transfer.head.headers, trailers: transfer.head.trailers,
            body: transfer.pipe.map { ResponseBody(ReaderEnd($0, keepsAlive: transfer.keepAlive)) }
                ?? ResponseBody(transfer.body),
            url: transfer.target.url, timings: timings)
    }

    private func endSilentTransfers() {
        idleWatch.begin(now, runningCount: runningCount)
        for handle in handles {
            guard let transfer = handle.transfer, transfer.plan.idleTimeout > 0 else { continue }
            // Before the connection stands its own timeout rules; while somebody here holds the transfer, none does.
            guard let lastActivity = transfer.lastActivity, !transfer.isSuspended, !transfer.isPaused else {
                idleWatch.note(now + transfer.plan.idleTimeout)
                continue
            }
            let deadline = lastActivity + transfer.plan.idleTimeout
            if deadline <= now, isStillSending(transfer, handle) {
                transfer.lastActivity = now
                idleWatch.note(now + transfer.plan.idleTimeout)
            } else if deadline <= now {
                end(transfer, EngineFailure.idle(transfer, timings: handle.timings(of: transfer, isOver: true)))
            } else {
                idleWatch.note(deadline)
            }
        }
        idleWatch.commit()
    }

    /// Whether the end of a body is still on its way out of the kernel's buffer, where libcurl cannot see it move.
    private func isStillSending(_ transfer: Transfer, _ handle: EasyHandle) -> Bool {
        guard transfer.plan.body != nil, !transfer.head.hasBegun, let socket = handle.activeSocket else { return false }
        let unsent = Int(lat_unsent_bytes(socket))
        defer { transfer.unsentBytes = unsent }
        return unsent > 0 && unsent != transfer.unsentBytes
    }

    /// Ends every transfer and frees everything. Handles leave the multi handle before it is freed, and the share
    /// outlives them all.
    private func shutDown() {
        // First of all: a task that learns of the end on this thread goes on elsewhere.
        let (rest, jobs) = mailbox.closeAndTakeRest()
        for job in jobs { globalConcurrentExecutor.enqueue(job) }
        // Those that wait first: the end of one that runs would start them.
        for transfer in held { end(transfer, EngineFailure.shutDown) }
        for transfer in queue.removeAll() { end(transfer, EngineFailure.shutDown) }
        for case .some(let transfer) in handles.map(\.transfer) { end(transfer, EngineFailure.shutDown) }
        side?.end()
        side = nil
        for command in rest {
            switch command {
            case .side(let work): work(nil)
            case .start(let transfer): over(transfer, .failure(EngineFailure.shutDown))
            case .shutDown(let waiter): if let waiter { shutdownWaiters.append(waiter) }
            case .gauges(let continuation): continuation.resume(returning: gauges)
            case .cookies(let body): body(nil)
            case .cancel, .update: break
            }
        }
        saveCookies()
        deliverAnswers()
        tearDown()
    }

    /// Before the responses that changed them are delivered: whoever has one may end the process.
    private func saveCookies() {
        if let cookies, cookies.mayHaveChanged { cookies.save() }
    }

    /// Frees what is libcurl's and the kernel's. Nothing of the engine may be used after it.
    func tearDown() {
        freeHandles = []
        handles = []
        cookies = nil
        curl_multi_cleanup(multi)
        curl_share_cleanup(share)
        close(epoll)
    }

    /// What is left, and who waits for the end: for the thread's last words.
    func epitaph() -> (EngineGauges, [UnsafeContinuation<Void, Never>]) {
        var left = gauges
        left.isRunning = false
        return (left, shutdownWaiters)
    }

    // MARK: Pausing

    private func update(_ transfer: Transfer) {
        let standing = transfer.owner?.standing ?? TransferStanding(priority: transfer.priority)
        if standing.isCancelled { return end(transfer, EngineFailure.cancelled) }
        let isSuspended = standing.isSuspended
        raise(transfer, to: standing.priority)
        switch transfer.phase {
        case .new:
            break  // read again when it is submitted
        case .held:
            transfer.isSuspended = isSuspended
            guard !isSuspended else { break }
            held.remove(transfer)
            admit(transfer)
        case .waiting:
            guard isSuspended else { break }
            transfer.isSuspended = true
            takeOutOfQueue(transfer)
            transfer.setPhase(.held)
            held.insert(transfer)
        case .running:
            let wasHeld = transfer.isSuspended || transfer.isPaused
            transfer.isSuspended = isSuspended
            transfer.isPaused = transfer.pipe?.isFull ?? false
            if wasHeld, !transfer.isSuspended, !transfer.isPaused, transfer.lastActivity != nil {
                transfer.lastActivity = now
            }
            applyPause(transfer)
        case .over:
            break
        }
    }

    /// Takes a waiting request to the end of those of a higher priority.
    private func raise(_ transfer: Transfer, to priority: RequestPriority) {
        guard priority > transfer.priority, transfer.phase != .new else { return }
        if transfer.phase == .waiting {
            takeOutOfQueue(transfer)
            transfer.priority = priority
            admit(transfer)
        } else {
            transfer.priority = priority
        }
    }

    private func applyPause(_ transfer: Transfer) {
        guard let handle = transfer.handle else { return }
        var bits = CURLPAUSE_CONT
        if transfer.isSuspended { bits = CURLPAUSE_ALL } else if transfer.isPaused { bits = CURLPAUSE_RECV }
        // libcurl may call the write callback from in here, and what that returns comes back here. Before there is
        // a connection it refuses; the pause is then applied when there is one.
        let code = curl_easy_pause(handle.curl, bits)
        if code != CURLE_OK, code != CURLE_BAD_FUNCTION_ARGUMENT {
            conclude(transfer, handle, code)
        }
    }

    private func deliverChunks() {
        guard !pipesWithNews.isEmpty else { return }
        let transfers = pipesWithNews
        pipesWithNews.removeAll(keepingCapacity: true)
        for transfer in transfers {
            transfer.hasNewChunks = false
            guard let pipe = transfer.pipe else { continue }
            pipe.flush()
        }
    }

    // MARK: What libcurl's callbacks tell

    /// A connection is about to be opened. Returns whether it may; what is refused is remembered with the transfer.
    func mayConnect(to address: UnsafePointer<curl_sockaddr>, _ handle: EasyHandle) -> Bool {
        guard let addressGuard else { return true }
        guard let transfer = handle.transfer else { return false }
        guard let refusal = refusal(of: address, transfer, addressGuard) else { return true }
        transfer.blockedAddress = refusal
        return false
    }

    private func refusal(
        of address: UnsafePointer<curl_sockaddr>, _ transfer: Transfer, _ addressGuard: AddressGuard
    ) -> NetworkError? {
        let host = transfer.target.host
        if address.pointee.family == AF_UNIX {
            return AddressGuard.error(.unixSocket, address: "a Unix domain socket", host: host)
        }
        // The proxy is the app's choice; the URL's host was looked at when the request was prepared.
        if transfer.plan.proxy != nil { return nil }
        guard let address = SocketAddress.address(of: address) else {
            return AddressGuard.error(.reserved, address: "an address of an unknown family", host: host)
        }
        return addressGuard.refusal(of: address, host: host).map {
            AddressGuard.error($0, address: address.description, host: host)
        }
    }

    func opened(_ descriptor: CInt) { sockets.opened(descriptor) }

    func closed(_ descriptor: CInt) { sockets.closed(descriptor) }

    func watch(_ descriptor: CInt, _ what: CInt) { sockets.watch(descriptor, what) }

    /// Shuts the connections that no transfer uses and that lead nowhere any more.
    func dropDeadConnections() {
        let busy = handles.compactMap { $0.transfer == nil ? nil : $0.activeSocket }
        sockets.shutDownIdle(except: Set(busy), where: ConnectionRoute.isGone)
    }

    func setTimer(milliseconds: Int) {
        timer = milliseconds < 0 ? .distantFuture : milliseconds == 0 ? now : now + Int64(milliseconds)
    }

    /// A connection stands and the request is about to go out on it. Returns whether it may.
    ///
    /// libcurl repeats a request by itself when a connection from the pool turns out to be dead. That is right
    /// when nothing was sent, or the request may be repeated; a request with effects that went out may have had
    /// them (RFC 9110 §9.2.2).
    func connectionIsReady(_ handle: EasyHandle, address: UnsafePointer<CChar>?) -> Bool {
        guard let transfer = handle.transfer else { return false }
        if let addressGuard, transfer.plan.proxy == nil {
            // A connection from the pool was looked at when it was opened; this is the second bolt on the door.
            let known = address.flatMap { IPAddress(host: String(cString: $0)) }
            let rule = known.map { addressGuard.refusal(of: $0, host: transfer.target.host) } ?? .reserved
            if let rule {
                transfer.failure = AddressGuard.error(
                    rule, address: known?.description ?? "the connection", host: transfer.target.host)
                return false
            }
        }
        transfer.lastActivity = now
        transfer.connectionsUsed += 1
        defer { transfer.hasHeadOnConnection = false }
        let isIdempotent = transfer.request.method.isIdempotent
        // Nothing but a refused stream makes libcurl leave a connection that it has just opened.
        let wasOnFreshConnection = transfer.isOnFreshConnection
        if !isIdempotent {
            let opened = handle.long(CURLINFO_NUM_CONNECTS)
            transfer.isOnFreshConnection = opened > transfer.connectionsOpened
            transfer.connectionsOpened = opened
        }
        let isRepetition = transfer.connectionsUsed > 1 && !transfer.hasHeadOnConnection
        guard isRepetition else {
            if transfer.isSuspended { mailbox.post(.update(transfer)) }
            return true
        }
        transfer.repetitions += 1
        let sentBefore = transfer.bytesSentBefore
        transfer.bytesSentBefore = handle.long(CURLINFO_REQUEST_SIZE)
        let isUnsent = transfer.bytesSentBefore == sentBefore
        let replay = Replay(
            fate: isUnsent ? .unsent : wasOnFreshConnection ? .refused : .unknown, isIdempotent: isIdempotent,
            isMultiplexed: isMultiplexed(transfer))
        if replay.allowsRepetition(transfer.repetitions) { return true }
        transfer.failure = EngineFailure.staleConnection(transfer)
        return false
    }

    func receivedHeaderLine(_ line: UnsafeBufferPointer<UInt8>, _ handle: EasyHandle) -> Int {
        guard let transfer = handle.transfer, transfer.failure == nil else { return 0 }
        transfer.lastActivity = now
        transfer.hasHeadOnConnection = true
        if transfer.firstByteAt == nil { transfer.firstByteAt = now }
        if let cookies, cookies.isPersistent, !cookies.mayHaveChanged, Self.setsCookie(line) {
            cookies.mayHaveChanged = true
        }
        let wasComplete = transfer.head.isComplete
        guard transfer.head.append(line) else {
            transfer.failure = EngineFailure.headTooLarge
            return 0
        }
        if !wasComplete, transfer.head.isFinal {
            if !libcurlMayAskAgain(transfer), let announced = transfer.announcedBodySize,
                announced > transfer.plan.maxBodySize
            {
                transfer.failure = .bodyTooLarge(limit: transfer.plan.maxBodySize)
                return 0
            }
            // libcurl stops sending by itself, but not when the body is being waited for.
            if transfer.head.status >= 300, case .source? = transfer.plan.body, !libcurlMayAskAgain(transfer) {
                transfer.stopsSending = true
                mailbox.post(.update(transfer))
            }
            if transfer.pipe != nil, !libcurlMayAskAgain(transfer) { answerWithStream(transfer, handle) }
        }
        return line.count
    }

    private static func setsCookie(_ line: UnsafeBufferPointer<UInt8>) -> Bool {
        let name = "set-cookie:".utf8
        return line.count > name.count && zip(line, name).allSatisfy { $0 | 0x20 == $1 || $0 == $1 }
    }

    /// Whether the head is a proxy's refusal: only a proxy that speaks HTTP may say 407 (RFC 9110 §15.5.8).
    private func isProxyRefusal(_ transfer: Transfer) -> Bool {
        transfer.head.status == 407 && transfer.plan.proxy.map { !$0.isSOCKS } ?? false
    }

    /// Whether the head may be a challenge that libcurl answers by itself, so that another head follows.
    private func libcurlMayAskAgain(_ transfer: Transfer) -> Bool {
        transfer.head.status == 401 && transfer.mayBeChallenged || transfer.head.status == 407
    }

    private func answerWithStream(_ transfer: Transfer, _ handle: EasyHandle) {
        guard !transfer.hasAnswered else { return }
        transfer.answer(.success(response(of: transfer, timings: handle.timings(of: transfer, isOver: false))))
    }

    func received(_ bytes: UnsafeRawBufferPointer, _ handle: EasyHandle) -> Int {
        guard let transfer = handle.transfer, transfer.failure == nil else { return 0 }
        transfer.lastActivity = now
        if isProxyRefusal(transfer) { return bytes.count }
        if let pipe = transfer.pipe, pipe.pauseIfFull() {
            // libcurl keeps these bytes and stops reading; otherwise it goes on for a hundred buffers before it looks up.
            transfer.isPaused = true
            return Int(CURL_WRITEFUNC_PAUSE)
        }
        transfer.bodyByteCount += Int64(bytes.count)
        guard transfer.bodyByteCount <= transfer.plan.maxBodySize else {
            transfer.failure = .bodyTooLarge(limit: transfer.plan.maxBodySize)
            return 0
        }
        if transfer.plan.decompresses, transfer.bodyByteCount > TransferPlan.decompressionGrace {
            let coded = max(1, handle.offset(CURLINFO_SIZE_DOWNLOAD_T))
            if transfer.bodyByteCount / coded > transfer.plan.maxDecompressionRatio {
                transfer.failure = EngineFailure.decompressionBomb(ratio: transfer.plan.maxDecompressionRatio)
                return 0
            }
        }
        if let pipe = transfer.pipe {
            answerWithStream(transfer, handle)
            pipe.append(bytes)
            if !transfer.hasNewChunks {
                transfer.hasNewChunks = true
                pipesWithNews.append(transfer)
            }
        } else if transfer.body.isEmpty, bytes.count > transfer.reservedBodySize {
            transfer.body = Data(bytes)
            if let announced = transfer.announcedBodySize, announced > transfer.bodyByteCount {
                transfer.body.reserveCapacity(Int(min(announced, Self.reserveLimit)))
            }
        } else {
            transfer.body.append(bytes.assumingMemoryBound(to: UInt8.self))
        }
        return bytes.count
    }

    func send(_ buffer: UnsafeMutableRawBufferPointer, from source: any BodySource, _ handle: EasyHandle) -> Int {
        guard let transfer = handle.transfer, transfer.failure == nil else { return Int(CURL_READFUNC_ABORT) }
        if transfer.stopsSending { return 0 }
        switch source.read(into: buffer) {
        case .bytes(let count):
            transfer.lastActivity = now
            transfer.sourceBytes += Int64(count)
            return count
        case .end: return 0
        case .pause: return Int(CURL_READFUNC_PAUSE)
        case .failed(let error):
            transfer.failure = error
            return Int(CURL_READFUNC_ABORT)
        }
    }

    func rewind(_ source: any BodySource, _ handle: EasyHandle) -> CInt {
        handle.transfer?.sourceBytes = 0
        if source.rewind() { return CURL_SEEKFUNC_OK }
        handle.transfer?.failure = EngineFailure.notReplayable
        return CURL_SEEKFUNC_FAIL
    }

    // MARK: Progress

    func progressed(download: (Int64, Int64), upload: (Int64, Int64), _ handle: EasyHandle) {
        guard let transfer = handle.transfer, transfer.plan.progress != nil else { return }
        // The body of a challenge is not what is waited for.
        if transfer.mayBeChallenged, transfer.head.status == 401 || transfer.head.status == 407 { return }
        let isUpload = transfer.plan.body != nil
        var (completed, total) = isUpload ? upload : download
        if isUpload { completed = contentBytes(of: transfer, onWire: completed) }
        report(
            TransferProgress(
                direction: isUpload ? .upload : .download, completed: completed, total: total > 0 ? total : nil),
            of: transfer, isLast: false)
    }

    private func reportLastProgress(_ transfer: Transfer, _ handle: EasyHandle, isWhole: Bool) {
        guard transfer.plan.progress != nil else { return }
        let isUpload = transfer.plan.body != nil
        var completed = handle.offset(isUpload ? CURLINFO_SIZE_UPLOAD_T : CURLINFO_SIZE_DOWNLOAD_T)
        if isUpload { completed = contentBytes(of: transfer, onWire: completed) }
        // libcurl adds the body of a challenge it answered to that of the answer.
        if !isUpload, transfer.mayBeChallenged, !transfer.head.isCoded { completed = transfer.bodyByteCount }
        report(
            TransferProgress(
                direction: isUpload ? .upload : .download, completed: completed,
                total: isWhole ? completed : transfer.lastProgress?.value.total),
            of: transfer, isLast: true)
    }

    /// libcurl counts the framing of a chunked body; content is what the source gave.
    private func contentBytes(of transfer: Transfer, onWire bytes: Int64) -> Int64 {
        guard case .source = transfer.plan.body else { return bytes }
        return min(bytes, transfer.sourceBytes)
    }

    private func report(_ progress: TransferProgress, of transfer: Transfer, isLast: Bool) {
        if let last = transfer.lastProgress {
            guard progress != last.value, progress.completed >= last.value.completed else { return }
            let isComplete = progress.total == progress.completed
            guard isLast || isComplete || now >= last.time + Self.progressInterval else { return }
        } else if progress.completed == 0, !isLast {
            return
        }
        transfer.lastProgress = (progress, now)
        transfer.plan.progress?(progress)
    }

    /// In milliseconds: what a person sees as motion.
    private static let progressInterval: Int64 = 50
}
