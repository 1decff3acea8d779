public import HTTPCore
import Synchronization

/// The base class of an app's own requests, for those who like to inherit: a subclass says what is sent, ``start(on:_:)``
/// sends it, and a closure, a delegate or both are told how it ended.
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
///     case .failure(let failure, _): show(failure.message)         // the server answered and said no
///     case .networkError(let error) where error.kind == .connect: call.restart()
///     case .networkError(let error): show(error.message)
///     }
/// }
/// ```
///
/// What is sent, and who the delegate is, is read when the call is started; what is changed later counts for the next
/// start. Every start is one request with one outcome, and several may run at once.
///
/// A model may be let go of while its call is under way: the call goes on, the closure is called, and so is the delegate
/// when there still is one. Nothing here keeps the delegate. The model itself is used by one thread or actor at a time,
/// as any class that is not `Sendable`; closure and delegate, which run elsewhere, get the call, which is.
///
/// Where a plain value will do, ``RequestEntity`` is the shorter way.
open class RequestModel<Model: Decodable & Sendable> {
    /// Where the request goes.
    public var route: Route

    /// Told of each outcome, after the closure. Not kept alive. Default `nil`.
    public weak var delegate: (any RequestModelDelegate)?

    private let running = RunningCalls()

    /// Makes a model.
    public init(_ route: Route, delegate: (any RequestModelDelegate)? = nil) {
        self.route = route
        self.delegate = delegate
    }

    // MARK: What a subclass says

    /// The parameters. Default `nil`: the encoded properties when the subclass is `Encodable`, else none.
    open var parameters: Parameters? { nil }

    /// Files of a multipart request. Default none.
    open var files: [UploadFile] { [] }

    /// The model's own settings: headers, timeout, cache policy and the rest. Default none.
    open var options: RequestOptions { RequestOptions() }

    /// Makes what is delivered of what was decoded: fills in, sorts, checks. Default: the model as it was decoded.
    ///
    /// Runs before delivery, away from the caller. It belongs to the class and not to one object, because that one may be
    /// changing, or gone, by then.
    ///
    /// - Throws: anything; the outcome is then ``RequestModelOutcome/networkError(_:)``, with a ``NetworkError`` as it is
    ///   and any other error as ``NetworkError/Kind/decoding(path:)``.
    open class func model(from reply: Reply<Model>) throws -> Model { reply.model }

    // MARK: Calls

    /// Sends the request.
    ///
    /// The outcome is delivered once, later, where the manager's callbacks run: to the closure, then to the delegate.
    /// What is wrong with the request itself is an outcome too. With ``CachePolicy/cacheThenNetwork`` both may be told of a
    /// cached success before; the call's task is not finished then (``RequestTask/isFinished``).
    ///
    /// - Parameters:
    ///   - manager: who sends it.
    ///   - completion: called with the outcome. Default `nil`.
    @discardableResult
    public func start(
        on manager: CentralRequestManager = .shared, _ completion: RequestModelCall<Model>.Completion? = nil
    ) -> RequestModelCall<Model> {
        let plan = Result { () throws(NetworkError) in EntityPlan(content: try content(), options: options) }
        let blueprint = RequestModelCall<Model>.Blueprint(
            route: route, manager: manager, plan: plan, refine: Self.refinement(type(of: self)), running: running,
            deliver: { [weak delegate] call, outcome in
                completion?(call, outcome)
                delegate?.requestModel(call, didEndWith: outcome)
            })
        return blueprint.start()
    }

    /// Cancels every call of this model that is under way, those started again by ``RequestModelCall/restart()`` too. Each
    /// ends with `.networkError` of kind ``NetworkError/Kind/cancelled``.
    public func cancel() { running.cancel() }

    private func content() throws(NetworkError) -> EntityContent {
        guard parameters == nil, let encodable = self as? any Encodable else {
            return try EntityContent(route: route, parameters: parameters, files: files)
        }
        return try EntityContent(route: route, propertiesOf: encodable, files: files)
    }

    private static func refinement(
        _ type: RequestModel.Type
    ) -> @Sendable (Reply<Model>) throws -> Reply<Model> {
        { reply in
            do {
                return Reply(model: try type.model(from: reply), response: reply.response, envelope: reply.envelope)
            } catch let error as NetworkError {
                throw error
            } catch {
                throw NetworkError(
                    .decoding(path: ""), message: "\(type).model(from:) refused the answer: \(error)",
                    response: reply.response, underlying: error)
            }
        }
    }
}

/// How a call of a ``RequestModel`` ended. The three are never mixed.
public enum RequestModelOutcome<Model: Sendable>: Sendable {
    /// The server answered, and the answer is a success.
    case success(Reply<Model>)
    /// The server answered and said no: its envelope's code, or the judge. The error holds the response.
    case failure(BusinessFailure, NetworkError)
    /// Anything else: the network, the status, the decoding, a cancellation. The error holds the response when there
    /// was one, its body included.
    case networkError(NetworkError)

    init(_ result: Result<Reply<Model>, NetworkError>) {
        switch result {
        case .success(let reply): self = .success(reply)
        case .failure(let error):
            switch CallOutcome(error) {
            case .failure(let failure, let error): self = .failure(failure, error)
            case .success, .networkError: self = .networkError(error)
            }
        }
    }
}

/// Is told how the calls of ``RequestModel``s ended. One delegate may serve models of any kind; ``RequestModelCall/route``
/// tells them apart.
///
/// ```swift
/// func requestModel<Model>(_ call: RequestModelCall<Model>, didEndWith outcome: RequestModelOutcome<Model>) {
///     if case .success(let reply) = outcome, let user = reply.model as? User { show(user) }
/// }
/// ```
public protocol RequestModelDelegate: AnyObject, Sendable {
    /// Called once for each call, after its closure, where the manager's callbacks run; before that once more where a
    /// cached reply is delivered first.
    func requestModel<Model: Decodable & Sendable>(
        _ call: RequestModelCall<Model>, didEndWith outcome: RequestModelOutcome<Model>)
}

/// One call of a ``RequestModel``, under way or over.
public struct RequestModelCall<Model: Decodable & Sendable>: Sendable {
    /// Gets the call and how it ended.
    public typealias Completion =
        @Sendable (
            _ call: RequestModelCall<Model>, _ outcome: RequestModelOutcome<Model>
        ) -> Void

    /// Cancels, suspends and resumes this one call; names it by its key.
    public let task: RequestTask

    private let blueprint: Blueprint

    /// Where the request goes.
    public var route: Route { blueprint.route }

    /// Cancels this one call. Its outcome is `.networkError` of kind ``NetworkError/Kind/cancelled``, unless it is over.
    public func cancel() { task.cancel() }

    /// Sends the same request once more, for the same closure and delegate: a call of its own, with its own outcome.
    /// May be used from inside them.
    @discardableResult
    public func restart() -> RequestModelCall { blueprint.start() }

    /// What it takes to start a call, and to start it again.
    struct Blueprint: Sendable {
        let route: Route
        let manager: CentralRequestManager
        let plan: Result<EntityPlan, NetworkError>
        let refine: @Sendable (Reply<Model>) throws -> Reply<Model>
        let running: RunningCalls
        let deliver: Completion

        func start() -> RequestModelCall {
            let task = manager.start(plan, as: Model.self, refine: refine) { task, result in
                if task.isFinished { running.remove(task) }
                deliver(RequestModelCall(task: task, blueprint: self), RequestModelOutcome(result))
            }
            running.add(task)
            return RequestModelCall(task: task, blueprint: self)
        }
    }
}

/// The calls of one model that are under way.
final class RunningCalls: Sendable {
    private let tasks = Mutex<Set<RequestTask>>([])

    /// A call may be over before it is added: it is then left out.
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

extension EntityContent {
    /// The properties of a model as parameters.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` when they do not encode, or not to an object.
    fileprivate init(
        route: Route, propertiesOf model: any Encodable, files: [UploadFile]
    ) throws(NetworkError) {
        self.route = route
        parameters = try RequestBuilder.properties(of: model, "override `parameters`")
        self.files = files
    }
}
