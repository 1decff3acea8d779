import LATNetworking
import LATRealtime

/// Shows the head of each response, of which the body may have no end, and the timings until then.
private struct ResponseTrace: RequestAccessory {
    let console: Console

    func willSend(_ request: inout HTTPRequest, of call: ObservedCall, resends: Int) -> AttemptEnd? {
        return { result in
            guard case .success(let response) = result else { return }
            RequestTrace.lines(of: response, hiding: call.secrets, console.errStyle).forEach(console.note)
            let time = response.timings.firstByte ?? .zero
            console.note(RequestTrace.line(of: response.timings, total: time, console.errStyle))
        }
    }
}

/// The common parts of the commands that keep a connection open.
struct LiveRun {
    static let limit = Option("--for", value: "TIME", help: "Ends after this time.")

    let request: RequestCommand
    let console: Console
    /// The time of `--for`; `nil` for none.
    let limit: Duration?

    /// A manager that shows each request and the head of each response when asked to.
    func manager() throws -> CentralRequestManager {
        try RequestSettings.manager(
            for: request, console, observer: request.isVerbose ? ResponseTrace(console: console) : nil)
    }

    /// Waits for the result of the work. Cancels the work when this task is cancelled, and when the time is over.
    func result<Value: Sendable>(of work: Task<Value, any Error>) async -> Result<Value, any Error> {
        let timer = limit.map { limit in
            Task {
                try await Task.sleep(for: limit)
                work.cancel()
            }
        }
        defer { timer?.cancel() }
        return await withTaskCancellationHandler {
            await work.result
        } onCancel: {
            work.cancel()
        }
    }

    /// The line about a state of the connection, which is for people only; `nil` for none.
    func line(_ state: LiveState) -> String? {
        guard request.format == .text, console.errTerminal.isTerminal || request.isVerbose else { return nil }
        let style = console.errStyle
        switch state {
        case .connecting: return style.dim("connecting")
        case .open: return style.dim("connected")
        case .waiting(let time):
            let wait = Quantity.duration(max(.zero, ContinuousClock.now.duration(to: time)))
            return style.bold("the connection was lost; the next attempt is in \(wait)")
        case .idle, .closed: return nil
        }
    }

    func report(_ error: NetworkError) -> ExitCode {
        error.kind == .cancelled ? .interrupted : console.fail(error, request.arguments)
    }

    /// The exit code for the result of the work.
    func code(of result: Result<Void, any Error>) throws -> ExitCode {
        switch result {
        case .success: return .success
        case .failure(let error as NetworkError): return report(error)
        case .failure(let error):
            try Task.checkCancellation()
            // The time of --for is over.
            if error is CancellationError { return .success }
            throw error
        }
    }
}
