import Glibc
import HTTPCore
import LATNetworking
import Platform
import Synchronization

extension ActivityIndicator {
    /// A view of the app, such as a HUD or a status line, that displays that work is in progress.
    public protocol Presenter: Sendable {
        /// Displays the activity, or changes its tip. Called on any thread, but never concurrently.
        func show(_ tip: String?)
        /// Hides the activity.
        func dismiss()
    }
}

/// Shows that calls are running, without flicker: short work is not shown, and what is shown stays for a minimum time.
///
/// ```swift
/// let indicator = ActivityIndicator(ActivityIndicator.TerminalSpinner())
/// configuration.accessories = [indicator]        // for every call
/// let activity = indicator.show("Uploading")     // or for work of the app
/// indicator.dismiss(activity)
/// ```
///
/// It counts activities, and hides when the last one has ended.
public final class ActivityIndicator: RequestAccessory {
    /// Identifies work between ``show(_:)`` and ``dismiss(_:)``.
    public struct Activity: Hashable, Sendable {
        fileprivate let id: UInt64
    }

    private struct Contents {
        var state: ActivityState
        var calls: [UInt64: Activity] = [:]
        /// The actions for the presenter that are still pending, in order.
        var actions: [ActivityState.Action] = []
        var isNotifying = false
    }

    private let presenter: any Presenter
    private let tip: @Sendable (ObservedCall) -> String?
    private let clock: CallClock
    private let contents: Mutex<Contents>
    private let ids = Atomic<UInt64>(0)

    /// Creates an indicator.
    ///
    /// - Parameters:
    ///   - presenter: Displays the activity.
    ///   - delay: How long work has to last before it is shown. Default 300 ms.
    ///   - minimum: How long it is shown at least. Default 500 ms.
    ///   - tip: Returns the text for a call. Default none.
    public convenience init(
        _ presenter: any Presenter, delay: Duration = .milliseconds(300),
        minimum: Duration = .milliseconds(500), tip: @escaping @Sendable (ObservedCall) -> String? = { _ in nil }
    ) {
        self.init(presenter, delay: delay, minimum: minimum, tip: tip, clock: .continuous)
    }

    init(
        _ presenter: any Presenter, delay: Duration, minimum: Duration,
        tip: @escaping @Sendable (ObservedCall) -> String?, clock: CallClock
    ) {
        self.presenter = presenter
        self.tip = tip
        self.clock = clock
        contents = Mutex(Contents(state: ActivityState(delay: delay, minimum: minimum)))
    }

    /// Begins an activity.
    @discardableResult
    public func show(_ tip: String? = nil) -> Activity {
        let activity = newActivity()
        update { $0.state.begin(activity.id, tip: tip, at: clock.now()) }
        return activity
    }

    /// Ends an activity. Has no effect the second time.
    public func dismiss(_ activity: Activity) { update { $0.state.end(activity.id, at: clock.now()) } }

    /// Begins the activity of a call.
    public func willStart(_ call: ObservedCall) {
        let tip = tip(call)
        let activity = newActivity()
        update { contents in
            contents.calls[call.id] = activity
            return contents.state.begin(activity.id, tip: tip, at: clock.now())
        }
    }

    /// Ends the activity of a call.
    public func didFinish(_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>) {
        if let activity = contents.withLock({ $0.calls.removeValue(forKey: call.id) }) { dismiss(activity) }
    }

    /// The number of activities in progress.
    public var count: Int { contents.withLock(\.state.count) }

    private func newActivity() -> Activity { Activity(id: ids.add(1, ordering: .relaxed).newValue) }

    private func update(_ change: (inout Contents) -> ActivityState.Step) {
        let wait = contents.withLock { contents in
            let step = change(&contents)
            if let action = step.action { contents.actions.append(action) }
            return step.wakeAfter
        }
        notifyPresenter()
        guard let wait else { return }
        Task { [weak self, clock] in
            try? await clock.sleep(wait)
            self?.update { $0.state.tick(at: clock.now()) }
        }
    }

    /// Calls the presenter outside the lock and from one thread at a time, so that the actions arrive in order.
    private func notifyPresenter() {
        while let action = nextAction() {
            switch action {
            case .show(let tip): presenter.show(tip)
            case .hide: presenter.dismiss()
            }
            contents.withLock { $0.isNotifying = false }
        }
    }

    private func nextAction() -> ActivityState.Action? {
        contents.withLock { contents in
            guard !contents.isNotifying, !contents.actions.isEmpty else { return nil }
            contents.isNotifying = true
            return contents.actions.removeFirst()
        }
    }
}

extension ActivityIndicator {
    /// Shows a spinner in the current line of a terminal. Writes nothing if the output is not a terminal.
    public final class TerminalSpinner: Presenter {
        private struct State {
            var tip: String?
            var turning: Task<Void, Never>?
        }

        private let descriptor: Int32
        private let state = Mutex(State())

        /// Creates a spinner.
        ///
        /// - Parameter descriptor: The file descriptor of a terminal. Default 2, the standard error.
        public init(descriptor: Int32 = 2) { self.descriptor = descriptor }

        /// Shows the spinner, with the tip beside it.
        public func show(_ tip: String?) {
            guard isatty(descriptor) == 1 else { return }
            state.withLock { state in
                state.tip = tip
                if state.turning == nil { state.turning = Task { [weak self] in await self?.turn() } }
            }
        }

        /// Stops the spinner and clears the line.
        public func dismiss() {
            state.withLock { state in
                guard let turning = state.turning else { return }
                turning.cancel()
                state = State()
                TextOutput.show(line: nil, on: descriptor)
            }
        }

        private func turn() async {
            var frame = 0
            let frames = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"]
            while !Task.isCancelled {
                state.withLock { state in
                    // A frame written after the line was cleared would remain.
                    guard !Task.isCancelled else { return }
                    let tip = state.tip.map { " " + URLText.visible($0) } ?? ""
                    TextOutput.show(line: frames[frame % frames.count] + tip, on: descriptor)
                }
                frame += 1
                try? await Task.sleep(for: .milliseconds(100))
            }
        }
    }
}

/// Decides when an activity indicator shows and hides. A pure state machine.
struct ActivityState: Sendable {
    enum Action: Hashable, Sendable {
        case show(tip: String?)
        case hide
    }

    struct Step: Hashable, Sendable {
        var action: Action?
        var wakeAfter: Duration?
    }

    let delay: Duration
    let minimum: Duration
    /// The tips of the activities in progress, the latest last.
    private(set) var tips: [(id: UInt64, tip: String?)] = []
    private(set) var shownSince: Duration?
    private(set) var shownTip: String?
    private(set) var busySince: Duration?

    var count: Int { tips.count }

    mutating func begin(_ id: UInt64, tip: String?, at now: Duration) -> Step {
        if tips.isEmpty, shownSince == nil { busySince = now }
        tips.append((id, tip))
        return tick(at: now)
    }

    /// Ends an activity. An unknown one changes nothing.
    mutating func end(_ id: UInt64, at now: Duration) -> Step {
        guard let index = tips.firstIndex(where: { $0.id == id }) else { return Step() }
        tips.remove(at: index)
        if tips.isEmpty { busySince = nil }
        return tick(at: now)
    }

    /// Applies the time that has passed.
    mutating func tick(at now: Duration) -> Step {
        if let shownSince {
            if tips.isEmpty {
                guard now >= shownSince + minimum else { return Step(wakeAfter: shownSince + minimum - now) }
                self.shownSince = nil
                return Step(action: .hide)
            }
            guard tip != shownTip else { return Step() }
            shownTip = tip
            return Step(action: .show(tip: shownTip))
        }
        guard !tips.isEmpty, let busySince else { return Step() }
        guard now >= busySince + delay else { return Step(wakeAfter: busySince + delay - now) }
        shownSince = now
        shownTip = tip
        return Step(action: .show(tip: shownTip))
    }

    /// The latest tip that has a text.
    private var tip: String? { tips.last { $0.tip != nil }?.tip }
}
