import HTTPCore
import LATNetworking
import Synchronization

/// The base class of an app's own requests, for apps that prefer inheritance: a subclass describes the request,
/// ``start(on:_:)`` sends it, and a closure, a delegate or both receive the outcome.
///
/// ```swift
/// final class FetchUser: RequestModel<User> {
///     let id: Int
///
///     init(id: Int) {
///         self.id = id
///         super.init(Route("GET", server: "user.detail"))
///     }
///
///     override var parameters: Parameters? { ["id": id] }
/// }
///
/// FetchUser(id: 42).start { call, outcome in
///     switch outcome {
///     case .success(let reply): show(reply.model)
///     case .failure(let failure, _): show(failure.message)         // the server reported a failure
///     case .networkError(let error) where error.kind == .connect: call.restart()
///     case .networkError(let error): show(error.message)
///     }
/// }
/// ```
///
/// Starting a call reads the request and the delegate; later changes apply to the next start. Every start sends one
/// request with one outcome, and several calls may run at once.
///
/// A model may be released while its call is running: the call continues, and the outcome reaches the closure, and the
/// delegate if that still exists. The delegate is referenced weakly. Like any class that is not `Sendable`, the model
/// itself is used by one thread or actor at a time. Closure and delegate, which run elsewhere, receive the call, which
/// is `Sendable`.
///
/// Where a plain value is enough, ``RequestEntity`` is shorter.
open class RequestModel<Model: Decodable & Sendable> {
    /// Where the request goes: a row of the table, a domain with a path, or a URL.
    public var route: Route

    /// Receives each outcome, after the closure. A weak reference. Default `nil`.
    public weak var delegate: (any RequestModelDelegate)?

    private let running = RunningCalls()

    /// Creates a model.
    public init(_ route: Route, delegate: (any RequestModelDelegate)? = nil) {
        self.route = route
        self.delegate = delegate
    }

    // MARK: For subclasses to override

    /// The parameters. Default `nil`: the encoded properties when the subclass is `Encodable`, otherwise none.
    open var parameters: Parameters? { nil }

    /// Files of a multipart request. Default none.
    open var files: [UploadFile] { [] }

    /// The model's own settings: headers, timeout, cache policy and the rest. Default none.
    open var options: RequestOptions { RequestOptions() }

    /// Makes the delivered model from the decoded reply: completes, sorts or checks it. Default: the decoded model.
    ///
    /// Runs before delivery, away from the caller. A class method, because the object may be changed or gone by then.
    ///
    /// - Throws: any error; the outcome is then ``CallOutcome/networkError(_:)``. A ``NetworkError`` is
    ///   delivered unchanged, any other error as ``NetworkError/Kind/decoding(path:)``.
    open class func model(from reply: Reply<Model>) throws -> Model { reply.model }

    // MARK: Calls

    /// Sends the request.
    ///
    /// The outcome is delivered once, never synchronously, on the manager's callback executor: to the closure, then to
    /// the delegate. An invalid request is an outcome too. With ``CachePolicy/cacheThenNetwork`` both may receive a
    /// cached success before that, while ``RequestTask/isFinished`` of the call's task is `false`.
    ///
    /// - Parameters:
    ///   - manager: sends the request.
    ///   - completion: called with the outcome. Default `nil`.
    @discardableResult
    public func start(
        on manager: CentralRequestManager = .shared, _ completion: RequestModel<Model>.Call.Completion? = nil
    ) -> RequestModel<Model>.Call {
        let plan = Result { () throws(NetworkError) in
            EntityPlan(content: try content(), options: options, entityHeaders: options.headers)
        }
        let subclass: RequestModel<Model>.Type = type(of: self)
        return RequestModel<Model>.Call.Blueprint(
            route: route, manager: manager, plan: plan, running: running, refine: { try subclass.refined($0) },
            deliver: { [weak delegate] call, outcome in
                completion?(call, outcome)
                delegate?.requestModel(call, didEndWith: outcome)
            }
        ).start()
    }

    /// Cancels every running call of this model, including those started again by ``RequestModel/Call/restart()``. Each
    /// ends with `.networkError` of kind ``NetworkError/Kind/cancelled``.
    public func cancel() { running.cancel() }

    private func content() throws(NetworkError) -> EntityContent {
        let parameters = parameters
        var content = try EntityContent(route: route, parameters: parameters, files: files)
        if parameters == nil, let encodable = self as? any Encodable {
            content.parameters = try RequestBuilder.properties(of: encodable, "override `parameters`")
        }
        return content
    }

    private static func refined(_ reply: Reply<Model>) throws -> Reply<Model> {
        do {
            return Reply(model: try model(from: reply), response: reply.response, envelope: reply.envelope)
        } catch let error as NetworkError {
            throw error
        } catch {
            throw NetworkError(
                .decoding(path: ""), message: "\(self).model(from:) rejected the response: \(error)",
                response: reply.response, underlying: error)
        }
    }
}

/// Receives the outcomes of ``RequestModel`` calls. One delegate may serve models of any kind;
/// ``RequestModel/Call/route`` distinguishes them.
///
/// ```swift
/// func requestModel<Model>(_ call: RequestModel<Model>.Call, didEndWith outcome: CallOutcome<Reply<Model>>) {
///     if case .success(let reply) = outcome, let user = reply.model as? User { show(user) }
/// }
/// ```
public protocol RequestModelDelegate: AnyObject, Sendable {
    /// Called once for each call, after its closure, on the manager's callback executor, and once before that for a
    /// cached reply.
    func requestModel<Model: Decodable & Sendable>(
        _ call: RequestModel<Model>.Call, didEndWith outcome: CallOutcome<Reply<Model>>)
}

extension RequestModel {
    /// One call of a ``RequestModel``, running or ended.
    public struct Call: Sendable {
        /// Receives the call and its outcome.
        public typealias Completion = @Sendable (_ call: Call, _ outcome: CallOutcome<Reply<Model>>) -> Void

        /// The handle of the call: cancels, pauses and resumes it, and identifies it by its key.
        public let task: RequestTask

        private let blueprint: Blueprint

        /// Where the request goes.
        public var route: Route { blueprint.route }

        /// Cancels this call, unless it has ended. Its outcome is `.networkError` of kind ``NetworkError/Kind/cancelled``.
        public func cancel() { task.cancel() }

        /// Sends the same request once more, as a new call with its own outcome. Closure and delegate may call this.
        @discardableResult
        public func restart() -> Call { blueprint.start() }

        /// What is needed to start a call, and to start it again.
        struct Blueprint: Sendable {
            let route: Route
            let manager: CentralRequestManager
            let plan: Result<EntityPlan, NetworkError>
            let running: RunningCalls
            let refine: @Sendable (Reply<Model>) throws -> Reply<Model>
            let deliver: Completion

            func start() -> Call {
                let task = manager.start(plan, as: Model.self, refine: refine) { task, result in
                    if task.isFinished { running.remove(task) }
                    deliver(Call(task: task, blueprint: self), CallOutcome(result))
                }
                running.add(task)
                return Call(task: task, blueprint: self)
            }
        }
    }
}

/// The running calls of one model.
final class RunningCalls: Sendable {
    private let tasks = Mutex<Set<RequestTask>>([])

    /// A call that has already ended is not added.
    func add(_ task: RequestTask) {
        tasks.withLock { tasks in
            if !task.isFinished { tasks.insert(task) }
        }
    }

    func remove(_ task: RequestTask) { tasks.withLock { _ = $0.remove(task) } }

    func cancel() {
        for task in tasks.withLock({ $0 }) { task.cancel() }
    }
}
