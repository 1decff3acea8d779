import CLibcurl
internal import HTTPCore
import Platform

/// The network thread of a transport: it runs `epoll_wait`, libcurl's multi
/// handle with its sockets and timer, and the mailbox.
///
/// It decides only what depends on the running transfers: which requests may
/// start (``AdmissionQueue``), which have been silent for too long
/// (``IdleWatch``) and which bodies are too large. Its state belongs to that
/// thread.
final class Engine: CallbackContext, @unchecked Sendable {
    // Sendable: made on the caller's thread, then used by its own thread only. So its state needs no run-time exclusivity
    // checks, which take about 3 % of the time of a request.

    enum Command: Sendable {
        case start(Transfer)
        case cancel(Transfer)
        /// A transfer has changed; for example, it was suspended, its reader caught up, or its body has more bytes.
        case update(Transfer)
        /// What another process found out about an address.
        case adopt(CircuitReport, circuit: String)
        case gauges(UnsafeContinuation<EngineGauges, Never>)
        /// Work for the engine's services; they are `nil` when the engine has ended.
        case services(@Sendable (EngineServices?) -> Void)
        case shutDown(UnsafeContinuation<Void, Never>?)
    }

    let configuration: EngineConfiguration
    let tls: TLSMaterial
    /// The TLS sessions to resume; `nil` when libcurl caches them or none are resumed.
    @exclusivity(unchecked) private var sessions: TLSSessions?
    /// The sessions of requests with TLS settings of their own, by ``TLSMaterial/number``.
    @exclusivity(unchecked) private var sessionsOfRequests: [UInt64: TLSSessions] = [:]
    let options: EngineOptions
    let share: UnsafeMutableRawPointer
    /// The cookies; `nil` when none are kept.
    let cookies: CookieStore?
    /// The Digest challenges that requests can answer in advance.
    @exclusivity(unchecked) var digests = DigestCache()
    /// The addresses of the hosts among which a policy chooses, by origin.
    @exclusivity(unchecked) var names: [String: NameAddresses] = [:]
    let addressCircuits: AddressCircuits
    /// The transfers of such hosts that are being connected, and when libcurl looks at them next.
    @exclusivity(unchecked) var connecting: Set<Transfer> = []
    @exclusivity(unchecked) var goOnDue = MonotonicTime.distantFuture
    /// Those whose next address is to be tried at once.
    @exclusivity(unchecked) var goingOn: [Transfer] = []
    /// Decides which addresses connections may go to; `nil` when all are allowed.
    let addressGuard: AddressGuard?
    let floods = FloodWatch()
    let mailbox: Mailbox<Command>
    let executor: EngineExecutor

    let multi: UnsafeMutableRawPointer
    private let events: EventQueue
    @exclusivity(unchecked) var sockets: SocketTable
    @exclusivity(unchecked) var queue: AdmissionQueue<Transfer>
    @exclusivity(unchecked) var idleWatch = IdleWatch()
    @exclusivity(unchecked) var handles = HandlePool()
    @exclusivity(unchecked) var throttle: Throttle?
    @exclusivity(unchecked) var runningCount = 0
    @exclusivity(unchecked) private var commands: [Command] = []
    @exclusivity(unchecked) private var jobs: [UnownedJob] = []
    /// Transfers suspended before they started; they take no place in the queue.
    @exclusivity(unchecked) var held: Set<Transfer> = []
    @exclusivity(unchecked) var pipesWithNewChunks: [Transfer] = []
    /// Transfers whose start failed. The loop ends them, because ending one starts the next.
    @exclusivity(unchecked) var failedStarts: [(Transfer, NetworkError)] = []
    /// The results of this turn. The engine has already released these transfers, so the callers' threads free them.
    @exclusivity(unchecked) var answers: [Transfer.Caller] = []
    @exclusivity(unchecked) var timer = MonotonicTime.distantFuture
    @exclusivity(unchecked) var now = MonotonicTime.now
    @exclusivity(unchecked) var isShuttingDown = false
    /// The value given to libcurl for `CURLMOPT_MAX_HOST_CONNECTIONS`; 0 for no limit.
    @exclusivity(unchecked) var hostLimit = 0
    @exclusivity(unchecked) var capacity: ConnectionCapacity
    @exclusivity(unchecked) private var shutdownWaiters: [UnsafeContinuation<Void, Never>] = []
    /// What the thread does besides ordinary transfers; `nil` unless it runs.
    @exclusivity(unchecked) private(set) var services: EngineServices?

    /// How many rounds of ready jobs one turn runs. More would delay the network.
    private static let jobRounds = 4

    init(
        _ configuration: EngineConfiguration, proxies: ProxySettings, tls: TLSMaterial, addressGuard: AddressGuard?,
        cookies: CookieStore?, addressCircuits: AddressCircuits = AddressCircuits()
    ) throws(NetworkError) {
        try GlobalCurl.start()
        options = try EngineOptions(configuration)
        guard let mailbox = Mailbox<Command>() else { throw EngineFailure.noDescriptor(SystemError(), for: "eventfd") }
        guard let events = EventQueue() else { throw EngineFailure.noDescriptor(SystemError(), for: "epoll") }
        guard let multi = curl_multi_init() else { throw EngineFailure.noResources("memory for libcurl") }
        guard let share = curl_share_init() else {
            curl_multi_cleanup(multi)
            throw EngineFailure.noResources("memory for libcurl")
        }
        self.configuration = configuration
        self.tls = tls
        self.addressGuard = addressGuard
        self.cookies = cookies
        self.addressCircuits = addressCircuits
        self.mailbox = mailbox
        executor = EngineExecutor(mailbox: mailbox)
        self.events = events
        self.multi = multi
        self.share = share
        if configuration.maxReceiveRate != nil || configuration.maxSendRate != nil {
            throttle = Throttle(configuration, .now)
        }
        sockets = SocketTable(events)
        queue = AdmissionQueue(totalLimit: max(1, configuration.maxConnections ?? .max))
        capacity = ConnectionCapacity(
            maxIdle: configuration.maxIdleConnections, perHost: configuration.maxConnectionsPerHost)
        if tls.resumesSessions { sessions = TLSSessions() }
        // The multi handle of live connections shares the DNS cache and, without a cache of our own, the TLS sessions.
        _ = lat_share_setopt_long(share, CURLSHOPT_SHARE, Int(CURL_LOCK_DATA_DNS.rawValue))
        if sessions == nil {
            _ = lat_share_setopt_long(share, CURLSHOPT_SHARE, Int(CURL_LOCK_DATA_SSL_SESSION.rawValue))
        }
        let context = Unmanaged.passUnretained(self).toOpaque()
        lat_multi_set_callbacks(multi, socketCallback, timerCallback, context)
        _ = lat_multi_setopt_long(multi, CURLMOPT_MAXCONNECTS, capacity.value)
        // The queue enforces the limit per host; this option enforces it where HTTP/2 needs more than one connection.
        // Through a proxy libcurl would count all origins as one host.
        if proxies.isEmpty {
            hostLimit = max(1, configuration.maxConnectionsPerHost)
            _ = lat_multi_setopt_long(multi, CURLMOPT_MAX_HOST_CONNECTIONS, hostLimit)
        }
        events.watch(mailbox.wakeUp.descriptor, for: [.readable, .edge])
    }

    /// The sessions that were made with these settings; `nil` as for ``sessions``.
    func sessions(for tls: TLSMaterial) -> TLSSessions? {
        guard tls !== self.tls, sessions != nil else { return sessions }
        if let known = sessionsOfRequests[tls.number] { return known }
        if sessionsOfRequests.count >= TLSMaterials.limit { sessionsOfRequests = [:] }
        let new = TLSSessions()
        sessionsOfRequests[tls.number] = new
        return new
    }

    func opened(_ descriptor: CInt, _ handle: EasyHandle) {
        sockets.opened(descriptor, isPooled: handle.isPooled, origin: handle.transfer?.target.origin ?? "")
        services?.opened(descriptor)
        if let transfer = handle.transfer, transfer.addresses != nil { noteConnecting(transfer) }
    }

    func closed(_ descriptor: CInt) {
        guard let (origin, time) = sockets.closed(descriptor) else { return }
        configuration.connectionDidClose?(origin, time)
    }

    func wholeSeconds(_ duration: Duration) -> Int {
        max(1, Int((duration.roundedUpMilliseconds + 999) / 1000))
    }

    // MARK: The loop

    /// Runs until a command shuts the engine down.
    func run() {
        mailbox.open()
        let services = EngineServices(engine: self, events)
        self.services = services
        while !isShuttingDown {
            let count = events.wait(milliseconds: waitTime())
            now = .now
            floods.origin = nil
            // Events come before commands, so that input on an idle connection is known before a request uses it.
            for index in 0..<count { handle(events[index]) }
            takeCommands()
            // The timer fires only once here. A fast transfer sets it to zero again and again, which would keep other
            // transfers and its own reader waiting as long as data arrives.
            if timer <= now { fireTimer() }
            floods.step &+= 1
            if services.due <= now { services.turn(now) }
            if goOnDue <= now { goOnLater() }
            finishTransfers()
            if idleWatch.isDue(now) {
                // Bytes that arrived while this thread waited for a processor reset the idle timeout.
                handleReadyEvents()
                checkIdleTransfers()
            }
            if let due = throttle?.due, due <= now {
                resumeThrottled()
                finishTransfers()
            }
            deliverChunks()
            deliverAnswers()
            if mailbox.hasJobs { runJobs() }
            services.settle()
        }
        shutDown()
    }

    /// Runs the jobs of this thread's tasks, and sends their next requests in the same turn.
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
        guard failedStarts.isEmpty, answers.isEmpty, pipesWithNewChunks.isEmpty, mailbox.prepareToSleep() else {
            return 0
        }
        // Of two each: for more, `min` makes an array.
        var next = min(min(timer, idleWatch.next), goOnDue)
        if let services { next = min(next, services.due) }
        if let throttle { next = min(next, throttle.due) }
        guard next != .distantFuture else { return -1 }
        let end = MonotonicTime.now
        if now + Self.longTurn < end { noteLongTurn(until: end) }
        return CInt(min(end.milliseconds(until: next), 3_600_000))
    }

    /// A turn that takes longer than this, in milliseconds, counts its activity at its end, not at its beginning.
    private static let longTurn: Int64 = 20

    /// Sets the time of this turn's activity to the end of the turn. On a loaded machine a turn may take longer than an
    /// idle timeout.
    private func noteLongTurn(until end: MonotonicTime) {
        for case .some(let transfer) in handles.all.map(\.transfer) where transfer.machine.lastActivity == now {
            transfer.machine.lastActivity = end
        }
    }

    private func handleReadyEvents() {
        let count = events.wait(milliseconds: 0)
        now = .now
        for index in 0..<count { handle(events[index]) }
        finishTransfers()
    }

    private func handle(_ event: (token: Int, events: EventQueue.Events)) {
        let descriptor = CInt(truncatingIfNeeded: event.token)
        guard descriptor != mailbox.wakeUp.descriptor, services?.noted(descriptor, event.events) != true,
            sockets.isWanted(descriptor, event.events)
        else { return }
        var running: CInt = 0
        floods.step &+= 1
        curl_multi_socket_action(multi, descriptor, event.events.curlSelect, &running)
    }

    private func fireTimer() {
        timer = .distantFuture
        floods.step &+= 1
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
        case .adopt(let report, let circuit): adopt(report, of: circuit)
        case .gauges(let continuation): continuation.resume(returning: gauges)
        case .services(let work): work(services)
        case .shutDown(let waiter):
            isShuttingDown = true
            if let waiter { shutdownWaiters.append(waiter) }
        }
    }

    private var gauges: EngineGauges {
        EngineGauges(
            easyHandles: handles.all.count, sockets: sockets.openCount,
            origins: sockets.origins(exceptPorts: busyPorts), isRunning: true, transfers: runningCount,
            waiting: queue.waiting)
    }

    // MARK: The end

    /// Ends every transfer and frees everything. Handles leave the multi handle before it is freed, and the share
    /// outlives both.
    private func shutDown() {
        // The mailbox is closed first, so that the tasks that the shutdown resumes continue on the global executor.
        let (rest, jobs) = mailbox.closeAndTakeRest()
        for job in jobs { globalConcurrentExecutor.enqueue(job) }
        // Waiting transfers end first, since the end of a running one would start them.
        for transfer in held { end(transfer, EngineFailure.shutDown) }
        for transfer in queue.removeAll() { end(transfer, EngineFailure.shutDown) }
        // A transfer that got no handle is only in failedStarts.
        endFailedStarts()
        for case .some(let transfer) in handles.all.map(\.transfer) { end(transfer, EngineFailure.shutDown) }
        services?.end()
        services = nil
        for command in rest {
            if case .start(let transfer) = command {
                over(transfer, .failure(EngineFailure.shutDown))
            } else {
                perform(command)
            }
        }
        deliverAnswers()
        tearDown()
    }

    /// Frees the resources of libcurl and the kernel. The engine cannot be used afterwards.
    func tearDown() {
        handles = HandlePool()
        // close() waits for the disk, but no transfer is left that this could delay.
        cookies?.close()
        curl_multi_cleanup(multi)
        // Freed after the connections, which may add sessions until they are closed.
        sessions = nil
        sessionsOfRequests = [:]
        curl_share_cleanup(share)
        events.end()
    }

    /// The final gauges, and the continuations that wait for the end.
    func finalReport() -> (EngineGauges, [UnsafeContinuation<Void, Never>]) {
        var left = gauges
        left.isRunning = false
        return (left, shutdownWaiters)
    }
}

extension EventQueue.Events {
    /// The events that libcurl asks for (`CURL_POLL_…`).
    init(pollingFor what: CInt) {
        switch what {
        case CURL_POLL_IN: self = .readable
        case CURL_POLL_OUT: self = .writable
        case CURL_POLL_INOUT: self = .readable.union(.writable)
        default: self.init(rawValue: 0)
        }
    }

    /// The events in libcurl's form (`CURL_CSELECT_…`).
    var curlSelect: CInt {
        var what: CInt = 0
        if contains(.readable) { what |= CURL_CSELECT_IN }
        if contains(.writable) { what |= CURL_CSELECT_OUT }
        if !isDisjoint(with: .gone) { what |= CURL_CSELECT_ERR }
        return what
    }
}
