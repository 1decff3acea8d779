import Dispatch
import LATNetworking
import Synchronization
import TestSupport

/// Records the events of one call with closures, and lets a test wait for its end.
final class CallRecorder: Sendable {
    enum Event: Sendable {
        case progress(TransferProgress)
        case success(HTTPResponse)
        case failure(NetworkError)
    }

    private struct State {
        var events: [Event] = []
        var waiters: [CheckedContinuation<Void, Never>] = []
        var isOver = false
    }

    private let state = Mutex(State())

    var events: [Event] { state.withLock { $0.events } }

    var terminalEvents: [Event] {
        events.filter { if case .progress = $0 { false } else { true } }
    }

    var progress: [TransferProgress] {
        events.compactMap { if case .progress(let progress) = $0 { progress } else { nil } }
    }

    var response: HTTPResponse? {
        for case .success(let response) in events { return response }
        return nil
    }

    var error: NetworkError? {
        for case .failure(let error) in events { return error }
        return nil
    }

    var onProgress: ProgressHandler { { self.add(.progress($0)) } }
    var onSuccess: @Sendable (RequestTask, HTTPResponse) -> Void { { self.add(.success($1)) } }
    var onFailure: @Sendable (RequestTask, NetworkError) -> Void { { self.add(.failure($1)) } }

    /// Returns after a terminal event.
    func end() async {
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                if !state.isOver { state.waiters.append(continuation) }
                return state.isOver
            }
            if isOver { continuation.resume() }
        }
    }

    private func add(_ event: Event) {
        let waiters = state.withLock { state in
            state.events.append(event)
            if case .progress = event { return [CheckedContinuation<Void, Never>]() }
            state.isOver = true
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }
}

extension CentralRequestManager {
    /// Starts a call and records its events.
    @discardableResult
    func startRequest(
        _ method: String, _ url: String, parameters: Parameters? = nil, files: [UploadFile] = [],
        body: HTTPBody? = nil, timeout: Duration? = nil, headers: HTTPHeaders = [:], into recorder: CallRecorder
    ) -> RequestTask {
        startRequest(
            method, url, parameters: parameters, files: files, body: body, timeout: timeout, headers: headers,
            progress: recorder.onProgress, success: recorder.onSuccess, failure: recorder.onFailure)
    }
}

extension DispatchQueue {
    /// Returns after everything enqueued so far has run.
    func drain() async {
        await withCheckedContinuation { continuation in async { continuation.resume() } }
    }
}
