import LATTesting
import TestSupport
import Testing

@testable import LATClient

/// A place where a call can wait.
enum WaitingPlace: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case connectionQueue, connect, head, body, redirectBody, redirectHandler, retryPause, network, tokenRenewal,
        tokenFields, tokenVerdict, cachePolicy, cacheHTTP, sharedRequest, limits, headerProvider, parameterProvider,
        resolver, barrier, callbacks

    var testDescription: String { rawValue }
}

/// The form in which a call is started.
enum CallForm: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case closure, asynchronous, stream, entity, entityClosure

    var testDescription: String { rawValue }
    var hasClosures: Bool { self == .closure || self == .entityClosure }

    func fits(_ place: WaitingPlace) -> Bool {
        switch place {
        // A stream has neither progress nor observers nor a resolver, and is not shared.
        case .callbacks, .resolver, .sharedRequest, .cachePolicy, .cacheHTTP: self != .stream
        default: true
        }
    }
}

/// What a call ended with.
enum CallEnding: Hashable, Sendable {
    case value
    case cancellationError
    case error(NetworkError.Kind)

    init(_ error: any Error) {
        switch error {
        case is CancellationError: self = .cancellationError
        case let error as NetworkError: self = .error(error.kind)
        default: self = .error(.other)
        }
    }
}

/// The entity of the matrix. It has the same address as the central calls.
struct FetchWaiting: RequestEntity, Encodable {
    static let route = Route("GET", url: "/wait/{id}")
    var id = 1
}

/// A running call and its endings.
final class WaitingCall: Sendable {
    let form: CallForm
    /// The handle of a form with closures.
    let task: RequestTask?
    /// The Swift task of the other forms.
    let work: Task<Void, Never>?
    private let log = Log<CallEnding>()
    private let isOver = Event()

    init(
        _ form: CallForm, _ manager: CentralRequestManager, _ progress: ProgressHandler?,
        _ beganBody: @escaping @Sendable () -> Void, isCancelled: Bool
    ) {
        self.form = form
        let (log, isOver) = (log, isOver)
        let end = { @Sendable (ending: CallEnding) in
            log.append(ending)
            isOver.happen()
        }
        func run(_ call: @escaping @Sendable () async throws -> Void) -> Task<Void, Never> {
            Task {
                if isCancelled { withUnsafeCurrentTask { $0?.cancel() } }
                do {
                    try await call()
                    end(.value)
                } catch {
                    end(CallEnding(error))
                }
            }
        }
        let entity = FetchWaiting().tag(WaitingFixture.tag).progress(progress ?? { _ in })
        switch form {
        case .closure:
            work = nil
            task = manager.startRequest(
                "GET", WaitingFixture.path, tag: WaitingFixture.tag, progress: progress,
                success: { _, _ in end(.value) }, failure: { _, error in end(CallEnding(error)) })
        case .entityClosure:
            work = nil
            task = entity.startRequest(on: manager) { _, _, error in end(error.map(CallEnding.init) ?? .value) }
        case .asynchronous:
            task = nil
            work = run {
                _ = try await manager.startRequest(
                    "GET", WaitingFixture.path, tag: WaitingFixture.tag, progress: progress)
            }
        case .entity:
            task = nil
            work = run { _ = try await entity.startRequest(on: manager) }
        case .stream:
            task = nil
            work = run {
                let response = try await manager.stream("GET", WaitingFixture.path, tag: WaitingFixture.tag)
                for try await _ in response.body { beganBody() }
            }
        }
    }

    var endings: [CallEnding] { log.elements }

    /// Returns the first ending. After 20 seconds without one, releases the fixture and returns `nil`.
    func ending(in fixture: WaitingFixture) async -> CallEnding? {
        let isOver = isOver
        let isLate = Event()
        let guardian = Task {
            try await Task.sleep(for: .seconds(20))
            isLate.happen()
            fixture.release()
            isOver.happen()
        }
        await isOver.wait()
        guardian.cancel()
        await work?.value
        return isLate.hasHappened ? nil : endings.first
    }
}
