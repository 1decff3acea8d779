import CLibcurl
import FoundationEssentials
import HTTPCore
import Platform

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
        case services(@Sendable (EngineServices?) -> Void)
        case shutDown(UnsafeContinuation<Void, Never>?)
    }

    let configuration: EngineConfiguration
    let tls: TLSMaterial
    /// The sessions that handshakes take up again; `nil` when none are, and when libcurl keeps them.
    @exclusivity(unchecked) private(set) var sessions: TLSSessions?
    let options: EngineOptions
    let share: UnsafeMutableRawPointer
    /// The cookies, when they are kept.
    let cookies: CookieStore?
    /// The challenges to Digest that requests answer beforehand.
    @exclusivity(unchecked) var digests = DigestCache()
    /// Decides where connections may go, when that is limited.
    let addressGuard: AddressGuard?
    let mailbox: Mailbox<Command>
    /// Gives the thread's spare moments to tasks.
    let executor: EngineExecutor

    let multi: UnsafeMutableRawPointer
    private let events: EventQueue
    @exclusivity(unchecked) var sockets: SocketTable
    @exclusivity(unchecked) var queue: AdmissionQueue<Transfer>
    @exclusivity(unchecked) var idleWatch = IdleWatch()
    @exclusivity(unchecked) var handles = HandlePool()
    /// The limits of all transfers together, when there are any.
    @exclusivity(unchecked) var throttle: Throttle?
    @exclusivity(unchecked) var runningCount = 0
    @exclusivity(unchecked) private var commands: [Command] = []
    @exclusivity(unchecked) private var jobs: [UnownedJob] = []
    /// Suspended before they started; they are in nobody's way.
    @exclusivity(unchecked) var held: Set<Transfer> = []
    @exclusivity(unchecked) var pipesWithNews: [Transfer] = []
    /// Ended by the loop and not on the spot, since the end of one starts the next.
    @exclusivity(unchecked) var failedStarts: [(Transfer, NetworkError)] = []
    /// The transfers are let go of by now, so that their callers' threads free them.
    @exclusivity(unchecked) var answers: [(Transfer.Caller, Result<HTTPResponse, NetworkError>)] = []
    @exclusivity(unchecked) var timer = MonotonicTime.distantFuture
    @exclusivity(unchecked) var now = MonotonicTime.now
    @exclusivity(unchecked) var isShuttingDown = false
    /// What libcurl was told; 0 for no limit.
    @exclusivity(unchecked) var hostLimit = 0
    @exclusivity(unchecked) var capacity: ConnectionCapacity
    @exclusivity(unchecked) private var shutdownWaiters: [UnsafeContinuation<Void, Never>] = []
    /// Connect probes and the watch over the network, from the thread's start to its end.
    @exclusivity(unchecked) private var services: EngineServices?

    /// How often in one turn tasks may go on that the turn itself has made ready. More would keep the network waiting.
    private static let jobRounds = 4

    init(
        _ configuration: EngineConfiguration, proxies: ProxySettings, tls: TLSMaterial, addressGuard: AddressGuard?,
        cookies: CookieStore?
    ) throws(NetworkError) {
        try GlobalCurl.start()
        options = try EngineOptions(configuration)
        guard let mailbox = Mailbox<Command>() else { throw EngineFailure.noResources("an eventfd") }
        guard let events = EventQueue() else { throw EngineFailure.noResources("an epoll descriptor") }
        guard let multi = curl_multi_init() else { throw EngineFailure.noResources("memory for libcurl") }
        guard let share = curl_share_init() else {
            curl_multi_cleanup(multi)
            throw EngineFailure.noResources("memory for libcurl")
        }
        self.configuration = configuration
        self.tls = tls
        self.addressGuard = addressGuard
        self.cookies = cookies
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
        if sessions == nil {
            _ = lat_share_setopt_long(share, CURLSHOPT_SHARE, Int(CURL_LOCK_DATA_SSL_SESSION.rawValue))
        }
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
        events.watch(mailbox.wakeUp.descriptor, for: [.readable, .edge])
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
        mailbox.open()
        let services = EngineServices(engine: self, events)
        self.services = services
        while !isShuttingDown {
            let count = events.wait(milliseconds: waitTime())
            now = .now
            // Before the commands: what has come on an idle connection is to be known when a request would go out on it.
            for index in 0..<count { handle(events[index]) }
            takeCommands()
            // Once a turn: a fast transfer asks to be run again at once, and would keep the others and its own reader
            // waiting for as long as there is data.
            if timer <= now { fireTimer() }
            if services.isDue(now) { services.turn(now) }
            finishTransfers()
            if idleWatch.isDue(now) { lookAtTransfers() }
            if let due = throttle?.due, due <= now {
                resumeThrottled()
                finishTransfers()
            }
            deliverChunks()
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
        let next = min(timer, idleWatch.next, services?.due ?? .distantFuture, throttle?.due ?? .distantFuture)
        guard next != .distantFuture else { return -1 }
        return CInt(min(MonotonicTime.now.milliseconds(until: next), 3_600_000))
    }

    private func handle(_ event: (token: Int, events: EventQueue.Events)) {
        let descriptor = CInt(truncatingIfNeeded: event.token)
        guard descriptor != mailbox.wakeUp.descriptor, services?.noted(descriptor) != true,
            sockets.isWanted(descriptor, event.events)
        else { return }
        var running: CInt = 0
        curl_multi_socket_action(multi, descriptor, event.events.curlSelect, &running)
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
        case .services(let work): work(services)
        case .shutDown(let waiter):
            isShuttingDown = true
            if let waiter { shutdownWaiters.append(waiter) }
        }
    }

    private var gauges: EngineGauges {
        EngineGauges(easyHandles: handles.all.count, sockets: sockets.openCount, isRunning: true)
    }

    // MARK: The end

    /// Ends every transfer and frees everything. Handles leave the multi handle before it is freed, and the share
    /// outlives them all.
    private func shutDown() {
        // First of all: a task that learns of the end on this thread goes on elsewhere.
        let (rest, jobs) = mailbox.closeAndTakeRest()
        for job in jobs { globalConcurrentExecutor.enqueue(job) }
        // Those that wait first: the end of one that runs would start them.
        for transfer in held { end(transfer, EngineFailure.shutDown) }
        for transfer in queue.removeAll() { end(transfer, EngineFailure.shutDown) }
        for case .some(let transfer) in handles.all.map(\.transfer) { end(transfer, EngineFailure.shutDown) }
        services?.end()
        services = nil
        for command in rest {
            switch command {
            case .services(let work): work(nil)
            case .start(let transfer): over(transfer, .failure(EngineFailure.shutDown))
            case .shutDown(let waiter): if let waiter { shutdownWaiters.append(waiter) }
            case .gauges(let continuation): continuation.resume(returning: gauges)
            case .cancel, .update: break
            }
        }
        deliverAnswers()
        tearDown()
    }

    /// Frees what is libcurl's and the kernel's. Nothing of the engine may be used after it.
    func tearDown() {
        handles.removeAll()
        // No transfer is left to wait for the disk.
        cookies?.close()
        curl_multi_cleanup(multi)
        // The connections are gone, and with them whoever adds to these.
        sessions = nil
        curl_share_cleanup(share)
        events.end()
    }

    /// What is left, and who waits for the end.
    func finalReport() -> (EngineGauges, [UnsafeContinuation<Void, Never>]) {
        var left = gauges
        left.isRunning = false
        return (left, shutdownWaiters)
    }
}

extension EventQueue.Events {
    /// What libcurl wants to hear of (`CURL_POLL_…`).
    init(pollingFor what: CInt) {
        switch what {
        case CURL_POLL_IN: self = .readable
        case CURL_POLL_OUT: self = .writable
        case CURL_POLL_INOUT: self = .readable.union(.writable)
        default: self.init(rawValue: 0)
        }
    }

    /// What libcurl is told (`CURL_CSELECT_…`).
    var curlSelect: CInt {
        var what: CInt = 0
        if contains(.readable) { what |= CURL_CSELECT_IN }
        if contains(.writable) { what |= CURL_CSELECT_OUT }
        if !isDisjoint(with: .gone) { what |= CURL_CSELECT_ERR }
        return what
    }
}
