import CLibcurl
import Glibc
internal import HTTPCore
import Platform
import Synchronization

// The C functions that libcurl calls, all on the engine's thread. Each finds
// its object by the context pointer and forwards the call.

let writeCallback: curl_write_callback = { bytes, size, count, context in
    guard let bytes, let context else { return 0 }
    let handle = EasyHandle.from(context)
    return handle.engine.received(UnsafeRawBufferPointer(start: bytes, count: size * count), handle)
}

let headerCallback: curl_write_callback = { bytes, size, count, context in
    guard let bytes, let context else { return 0 }
    let handle = EasyHandle.from(context)
    let line = UnsafeRawBufferPointer(start: bytes, count: size * count).assumingMemoryBound(to: UInt8.self)
    return handle.engine.receivedHeaderLine(line, handle)
}

let readCallback: curl_read_callback = { bytes, size, count, context in
    guard let bytes, let context else { return Int(CURL_READFUNC_ABORT) }
    let handle = EasyHandle.from(context)
    guard case .source(let source) = handle.transfer?.plan.body else { return 0 }
    return handle.engine.send(UnsafeMutableRawBufferPointer(start: bytes, count: size * count), from: source, handle)
}

let seekCallback: curl_seek_callback = { context, offset, origin in
    guard let context, offset == 0, origin == SEEK_SET else { return CURL_SEEKFUNC_CANTSEEK }
    let handle = EasyHandle.from(context)
    guard case .source(let source) = handle.transfer?.plan.body else { return CURL_SEEKFUNC_FAIL }
    return handle.engine.rewind(source, handle)
}

let progressCallback: curl_xferinfo_callback = { context, downloadTotal, download, uploadTotal, upload in
    guard let context else { return 0 }
    let handle = EasyHandle.from(context)
    handle.engine.progressed(
        download: (Int64(download), Int64(downloadTotal)), upload: (Int64(upload), Int64(uploadTotal)), handle)
    return 0
}

let prereqCallback: curl_prereq_callback = { context, address, _, _, _ in
    guard let context else { return CURL_PREREQFUNC_ABORT }
    let handle = EasyHandle.from(context)
    handle.opensTunnel = false
    return handle.engine.connectionIsReady(handle, address: address) ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT
}

let openSocketCallback: curl_opensocket_callback = { context, _, address in
    guard let context, let address else { return CURL_SOCKET_BAD }
    let handle = EasyHandle.from(context)
    if handle.transfer?.addresses != nil, !handle.engine.choose(address, handle) { return CURL_SOCKET_BAD }
    guard handle.engine.mayConnect(to: address, handle) else { return CURL_SOCKET_BAD }
    handle.hasProxyHandshake = false
    (handle.opensTunnel, handle.hasInterimAnswer) = (true, false)
    let kind = address.pointee.socktype | CInt(SOCK_CLOEXEC.rawValue)
    let descriptor = socket(address.pointee.family, kind, address.pointee.protocol)
    guard descriptor >= 0 else {
        let error = SystemError()
        if error.isFileLimit { handle.transfer?.socketRefusal = EngineFailure.noDescriptor(error, for: "socket") }
        return CURL_SOCKET_BAD
    }
    handle.engine.opened(descriptor, handle)
    return descriptor
}

let closeSocketCallback: curl_closesocket_callback = { context, descriptor in
    if let context { Engine.from(context).closed(descriptor) }
    return close(descriptor)
}

let socketCallback: curl_socket_callback = { _, descriptor, what, context, _ in
    guard let context else { return 0 }
    Engine.from(context).sockets.watch(descriptor, what)
    return 0
}

let timerCallback: curl_multi_timer_callback = { _, milliseconds, context in
    guard let context else { return 0 }
    Engine.from(context).setTimer(milliseconds: milliseconds)
    return 0
}

/// A transfer that only opens a connection.
///
/// libcurl has no transfer that leaves an unused connection in its pool: connections of `CURLOPT_CONNECT_ONLY` are
/// never reused, and a callback that aborts a transfer closes its connection. But a request that libcurl cannot format
/// fails after the connection is established and before a byte is sent, and leaves the connection usable. So this
/// request has a time condition (`CURLOPT_TIMEVALUE_LARGE`) with a date beyond what libcurl can format. It is a `HEAD`,
/// in case some libcurl can format that date and sends it.
///
/// libcurl 8 does not reuse a clear-text connection that has carried no request, so there the `HEAD` is sent.
final class WarmUp: Sendable {
    /// Whether an existing connection is enough.
    let acceptsExisting: Bool
    private let multiplexes = Atomic<Bool>(false)

    init(acceptsExisting: Bool) { self.acceptsExisting = acceptsExisting }

    /// Whether the connection is multiplexed, so that one is enough.
    var isMultiplexed: Bool { multiplexes.load(ordering: .relaxed) }

    /// Records whether the connection that is now ready is multiplexed.
    func noteConnection(_ handle: EasyHandle) {
        if OpenSSL.choseHTTP2(handle.curl) { multiplexes.store(true, ordering: .relaxed) }
    }

    /// Whether a transfer that sends no request ended as intended, with its connection in the pool.
    func isOver(_ result: CURLcode, _ transfer: Transfer) -> Bool {
        result == CURLE_BAD_FUNCTION_ARGUMENT && transfer.machine.attempts.connectionsUsed > 0
            && transfer.failure == nil
    }
}

extension EasyHandle {
    func setWarmUp(_ warmUp: WarmUp) {
        if !warmUp.acceptsExisting { set(CURLOPT_FRESH_CONNECT, 1) }
        if !GlobalCurl.Old.reusesUnusedClearText, transfer?.target.isSecure == false { return }
        set(CURLOPT_TIMECONDITION, Int(CURL_TIMECOND_IFMODSINCE.rawValue))
        set(CURLOPT_TIMEVALUE_LARGE, Int64.max)
    }
}

/// Runs Swift tasks on an engine's thread, so that a request and the code that awaits it stay on one thread.
///
/// ```swift
/// try await withTaskExecutorPreference(manager.executor) {
///     for id in ids { print(try await FetchPrice(id: id).startRequest(on: manager).cents) }
/// }
/// ```
///
/// Use it for loops of many small requests: passing a request to another thread
/// and its response back takes over half the time of a small request. Tasks that
/// prefer the executor, and their child tasks, run between the engine's turns,
/// in the order in which they become ready and regardless of priority. Actors
/// with an executor of their own, such as the main actor, stay on it.
///
/// **Never block there.** All requests of the manager wait while a task
/// computes or decodes a body on the engine's thread, so move work that takes
/// more than a few milliseconds to
/// `withTaskExecutorPreference(globalConcurrentExecutor) { … }` or a detached
/// task. A semaphore, a lock or `DispatchQueue.sync` that waits for a request
/// of the same manager never returns.
///
/// After the engine has ended, the tasks that prefer it run on Swift's global
/// executor.
package final class EngineExecutor: TaskExecutor {
    private let mailbox: Mailbox<Engine.Command>

    init(mailbox: Mailbox<Engine.Command>) { self.mailbox = mailbox }

    /// Accepts a job; called by the Swift runtime.
    public func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        if !mailbox.post(job) { globalConcurrentExecutor.enqueue(job) }
    }
}
