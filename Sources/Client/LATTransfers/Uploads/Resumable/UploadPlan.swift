import HTTPCore

/// What an upload in several requests does next, whatever its protocol. A value without I/O and clock.
///
/// The file is divided into lanes. A lane is an upload on the server that grows from its beginning, or a part that is stored
/// as a whole. The job performs a step, has a dialect read the response, and notes the answer here.
struct UploadPlan: Hashable, Sendable {
    enum Shape: String, Hashable, Sendable {
        /// One upload that grows.
        case sequence
        /// Several uploads that grow side by side and are joined at the end.
        case joined
        /// Parts of one upload, stored in any order and put together at the end.
        case parts
    }

    let total: Int64
    let style: ResumableUpload.Style
    private let parallel: Int
    private let wantedPart: Int64?
    /// Whether a request may be sent again although the one before may have had its effect.
    private let repeatsEffects: Bool
    /// The largest content that the server took after it had refused a larger one.
    private var takenPart: Int64?
    var shape = Shape.sequence
    var lanes: [Lane] = []
    /// The name of the upload that parts belong to.
    var upload: String?
    var facts = Facts()
    private var hasProbed: Bool
    private var listsAfter: Int? = 0
    /// Whether the request that puts the parts together may have reached the server.
    var mayBeComplete = false
    /// The same before the request that is being sent.
    private var mightBeComplete = false
    private var verifies = false
    /// Whether the server has said that it does not know the parts any more.
    private var isGone = false
    /// Whether a response was the result if the server has all bytes.
    private var hasResult = false
    private(set) var isFinished = false
    private(set) var restarts = 0
    /// How often the parts were listed again because they could not be put together.
    private var relists = 0
    /// The most bytes that the server had at any time since the upload was created.
    private(set) var highest: Int64 = 0
    /// The interop version of the draft.
    var version = UploadPlan.versions.upperBound
    /// Whether the server has named the version, and so is known to understand it.
    var isVersionKnown = false

    /// The interop versions of the draft: 3 is of draft -01, 4 of -02, 5 of -03, 6 of -04, 7 of -06, 8 of -09 to -11.
    static let versions = 3...8
    static let maxRestarts = 3
    private static let maxRelists = 3
    static let maxParts: Int64 = 10_000

    init(total: Int64, _ upload: ResumableUpload, repeatsEffects: Bool = true) {
        self.total = total
        self.repeatsEffects = repeatsEffects
        style = upload.style
        parallel = upload.style == .standard ? 1 : upload.parallel
        wantedPart = upload.partSize
        hasProbed = upload.style == .s3
        layOut()
    }

    /// The largest content of a request.
    var partSize: Int64 {
        if shape == .parts, let first = lanes.first { return max(1, Int64(first.range.count)) }
        var size = wantedPart ?? min(64 << 20, max(style == .s3 ? 8 << 20 : 4 << 20, total / 100))
        if let limit = facts.minPart { size = max(size, limit) }
        for limit in [facts.maxPart, takenPart] { size = min(size, limit ?? .max) }
        return max(1, size)
    }

    var workerCount: Int { shape == .sequence ? 1 : min(parallel, max(1, lanes.count { !$0.isDone })) }

    /// The bytes that the server has.
    var stored: Int64 { isFinished ? total : lanes.reduce(0) { $0 + $1.size } }

    /// Whether the server has an upload that could be continued or has to be removed.
    var hasUpload: Bool { upload != nil || lanes.contains { $0.address != nil } }

    /// The URL of the upload on the server; `nil` while it has none.
    ///
    /// - Parameters:
    ///   - target: The URL that the caller named.
    ///   - response: The result.
    func url(_ target: String, _ response: HTTPResponse?) -> String? {
        switch shape {
        case .sequence: lanes[0].address
        case .joined: isFinished ? response?.createdURL : nil
        case .parts: upload.map { _ in target }
        }
    }

    var hasRestartedTooOften: Bool { restarts > Self.maxRestarts }

    private mutating func layOut() {
        switch style {
        case .tus where parallel > 1 && facts.canJoin && total >= Int64(parallel):
            shape = .joined
            let count = Int64(parallel)
            lanes = (0..<count).map { Lane(range: share($0, of: count)..<share($0 + 1, of: count)) }
        case .tus, .standard:
            shape = .sequence
            lanes = [Lane(range: 0..<total)]
        case .s3:
            shape = .parts
            var size = wantedPart ?? partSize
            if wantedPart == nil { size = max(size, (total / Self.maxParts / (1 << 20) + 1) << 20) }
            lay(partsOf: size)
        }
    }

    private func share(_ index: Int64, of count: Int64) -> Int64 {
        total / count * index + total % count * index / count
    }

    /// The quotient, rounded up.
    static func count(of total: Int64, by size: Int64) -> Int64 { total / size + (total % size > 0 ? 1 : 0) }

    mutating func lay(partsOf size: Int64) {
        // More than the limit is refused before anything is sent.
        let count = min(Self.maxParts + 1, max(1, Self.count(of: total, by: size)))
        lanes = (0..<count).map { number in
            let start = number * size
            return Lane(range: start..<start + min(size, total - start))
        }
    }

    // MARK: Steps

    /// The next step that has to be made before, or after, all that workers do; `nil` while they send.
    var serialStep: Step? {
        if verifies { return .verify }
        if !hasProbed { return .probe }
        if shape == .parts {
            if upload == nil { return .begin }
            if let listsAfter { return .list(after: listsAfter) }
        }
        return !isFinished && lanes.allSatisfy(\.isDone) ? .complete : nil
    }

    /// The next step of a worker; `nil` if nothing is left for it.
    mutating func step(of worker: Int) -> Step? {
        guard !isFinished, !verifies,
            let index = lanes.firstIndex(where: { $0.worker == worker && !$0.isDone })
                ?? lanes.firstIndex(where: { $0.worker == nil && !$0.isDone })
        else { return nil }
        lanes[index].worker = worker
        let lane = lanes[index]
        if shape == .parts { return .send(lane: index, lane.range) }
        guard lane.address != nil else { return .create(lane: index, firstContent(of: lane.range)) }
        guard lane.isKnown else { return .ask(lane: index) }
        let start = lane.range.lowerBound + lane.stored
        return .send(lane: index, start..<min(start + partSize, lane.range.upperBound))
    }

    /// The bytes that the creation of a lane carries. A creation that would complete the upload cannot be repeated when its
    /// answer is lost, so tus sends the content apart. Only a server that has named the version of the draft is known to
    /// understand that more content follows; another one would take a part, or nothing, for the whole file.
    private func firstContent(of range: Range<Int64>) -> Range<Int64> {
        let none = range.lowerBound..<range.lowerBound
        let isSmall = Int64(range.count) <= partSize
        switch style {
        case .tus: return facts.createsWithContent && isSmall && (shape == .joined || repeatsEffects) ? range : none
        case .standard: return !isVersionKnown || isSmall || total < facts.minSize ?? 0 ? range : none
        case .s3: return none
        }
    }

    /// Whether a request completes the upload if it has its effect.
    func completes(_ step: Step) -> Bool {
        switch step {
        case .complete: true
        case .create(_, let range), .send(_, let range): shape == .sequence && range.upperBound == total
        case .probe, .begin, .list, .ask, .verify: false
        }
    }

    /// Whether a request may be sent again when its answer was lost or is no success.
    func mayRepeat(_ step: Step) -> Bool {
        switch step {
        case .create(let lane, _): repeatsEffects || !completes(step) || lanes[lane].address != nil
        case .complete: repeatsEffects || shape != .joined
        case .probe, .begin, .list, .ask, .send, .verify: true
        }
    }

    /// Releases the lanes of all workers, and asks what the server has of those that were interrupted.
    mutating func releaseAll() {
        for index in lanes.indices where !lanes[index].isDone {
            lanes[index].worker = nil
            lanes[index].isKnown = false
        }
    }

    // MARK: Answers

    /// - Parameters:
    ///   - status: The status of the response that is the answer.
    ///   - isMoved: Whether the server may have processed the request and redirected it to where the response comes from.
    mutating func note(_ answer: Answer, to step: Step, status: Int = 200, isMoved: Bool = false) -> Outcome {
        // A gateway may fail although the server behind it has the request, which an earlier one may have preceded.
        let leavesDoubt =
            switch answer {
            case .created, .offset, .gone, .unrepeated, .unconfirmed, .again(.conflict): true
            default: isMoved || status == 408 || status >= 500
            }
        if completes(step), shape != .parts, !leavesDoubt || !hasUpload { mayBeComplete = mightBeComplete }
        let outcome = outcome(of: answer, to: step)
        highest = max(highest, stored)
        return outcome
    }

    private mutating func outcome(of answer: Answer, to step: Step) -> Outcome {
        switch answer {
        case .probed:
            hasProbed = true
            if !hasUpload { layOut() }
        case .created(let address, let stored):
            guard let lane = step.lane else {
                upload = address
                listsAfter = nil
                break
            }
            if let earlier = lanes[lane].address, earlier != address {
                return .violation(
                    "the server named two addresses for the upload, \(earlier) and \(address); report it there")
            }
            lanes[lane].address = address
            lanes[lane].isKnown = stored != nil
            return stored.map { reach($0, in: lane, after: step) } ?? .proceed
        case .offset(let offset):
            guard let lane = step.lane else { return .refused }
            return reach(offset, in: lane, after: step)
        case .listed(let parts, let next):
            for (number, part) in parts where lanes.indices.contains(number - 1) {
                guard part.size == nil || part.size == Int64(lanes[number - 1].range.count) else { continue }
                lanes[number - 1].part = part
                lanes[number - 1].isDone = true
            }
            if let next, case .list(let after) = step, next <= after {
                return .violation("the list of the parts does not go on after part \(after); report it to the server")
            }
            listsAfter = next.flatMap { $0 < lanes.count ? $0 : nil }
        case .stored(let part):
            guard let lane = step.lane else { return .refused }
            lanes[lane].part = part
            lanes[lane].isDone = true
        case .whole where hasResult:
            isFinished = true
            return .finished
        case .whole:
            mayBeComplete = true
            for index in lanes.indices { lanes[index].isDone = true }
        case .finished:
            isFinished = true
            return .finished
        // The answer to the request that completed the upload may have been lost.
        case .gone where shape != .parts:
            return repeatsEffects || !(mayBeComplete || step == .verify) ? .startOver : .violation(Self.doubt)
        case .gone where step == .verify:
            return isGone ? .startOver : listAgain()
        case .gone:
            guard mayBeComplete else { return .startOver }
            (verifies, isGone) = (true, true)
        case .unrepeated: (verifies, mayBeComplete) = (true, true)
        case .unconfirmed where step == .complete: verifies = true
        case .unconfirmed:
            hasResult = true
            interrupt(step)
            return .again(.conflict)
        case .again(.conflict) where step == .complete && shape == .parts: return listAgain()
        case .again(let reason):
            interrupt(step)
            return .again(reason)
        case .tooLarge(let limit):
            guard shape != .parts, let count = contentCount(of: step), count > 1 else { return .refused }
            takenPart = min(limit.flatMap { $0 > 0 ? $0 : nil } ?? .max, count / 2)
            interrupt(step)
        case .violation(let reason): return .violation(reason)
        case .unusable(let reason): return .unusable(reason)
        case .failed: return .failed
        case .refused: return .refused
        }
        return .proceed
    }

    static let doubt =
        "the response to the last request was lost, and the server does not know the upload any more: it may be complete. "
        + "Look for the file on the server; with an idempotencyKey, or resumesEarlierRun = false, it is sent again"

    /// The bytes of content that a server may refuse to take in one request, where less can be sent.
    private func contentCount(of step: Step) -> Int64? {
        switch step {
        case .create(_, let range): style == .tus || isVersionKnown ? Int64(range.count) : nil
        case .send(_, let range): Int64(range.count)
        case .probe, .begin, .list, .ask, .complete, .verify: nil
        }
    }

    /// Notes what an interim response says.
    ///
    /// - Returns: whether the address of the upload is new.
    mutating func noteInterim(_ address: String?, _ facts: Facts, to step: Step) -> Bool {
        take(facts)
        isVersionKnown = true
        guard let address, let lane = step.lane, lanes[lane].address == nil else { return false }
        lanes[lane].address = address
        return true
    }

    /// A request failed without an answer, or with one that may pass: the server is asked what it has.
    ///
    /// - Parameter isLost: Whether the server may have got the request.
    mutating func fail(_ step: Step, isLost: Bool = false) {
        if !isLost, completes(step), shape != .parts { mayBeComplete = mightBeComplete }
        // A server sends no 104 to another version than its own, and the next attempt uses the one before.
        if case .create = step, isLost, style == .standard, !isVersionKnown {
            version = max(Self.versions.lowerBound, version - 1)
        }
        interrupt(step)
    }

    /// Has the server asked what it has.
    private mutating func interrupt(_ step: Step) {
        if let lane = step.lane { lanes[lane].isKnown = false }
        if step == .complete, shape == .parts, !mayBeComplete { listsAfter = 0 }
    }

    /// The request that completes the upload is about to be sent.
    mutating func noteCompletion() { (mightBeComplete, mayBeComplete) = (mayBeComplete, true) }

    /// The server says that parts are missing or are not those that were named, or there is another object.
    private mutating func listAgain() -> Outcome {
        guard relists < Self.maxRelists else { return .refused }
        relists += 1
        (mayBeComplete, verifies) = (false, false)
        listsAfter = 0
        for index in lanes.indices { (lanes[index].isDone, lanes[index].part, lanes[index].worker) = (false, nil, nil) }
        return .again(.conflict)
    }

    /// Forgets the upload on the server.
    mutating func startOver() {
        restarts += 1
        upload = nil
        listsAfter = 0
        (mayBeComplete, verifies, isFinished) = (false, false, false)
        (mightBeComplete, isGone, hasResult) = (false, false, false)
        (relists, highest) = (0, 0)
        layOut()
    }

    mutating func take(_ new: Facts) {
        if let named = new.version, Self.versions.contains(named) { (version, isVersionKnown) = (named, true) }
        facts.canJoin = facts.canJoin || new.canJoin
        facts.createsWithContent = facts.createsWithContent || new.createsWithContent
        facts.checksum = new.checksum ?? facts.checksum
        facts.wholeChecksum = new.wholeChecksum ?? facts.wholeChecksum
        facts.maxSize = new.maxSize ?? facts.maxSize
        facts.minSize = new.minSize ?? facts.minSize
        facts.maxPart = new.maxPart ?? facts.maxPart
        facts.minPart = new.minPart ?? facts.minPart
    }

    private mutating func reach(_ offset: Int64, in index: Int, after step: Step) -> Outcome {
        let count = Int64(lanes[index].range.count)
        if offset < count { (mayBeComplete, hasResult) = (false, false) }
        switch step {
        case .create(_, let range), .send(_, let range):
            let sent = range.upperBound - lanes[index].range.lowerBound
            guard offset <= sent else {
                return .violation(
                    "the server says that it has \(offset) bytes of the upload, and \(sent) were sent; report it there")
            }
        case .ask where offset > count:
            interrupt(step)
            return .again(.conflict)
        case .probe, .begin, .list, .ask, .complete, .verify: break
        }
        let before = lanes[index].stored
        lanes[index].stored = offset
        lanes[index].isKnown = true
        if case .send = step, offset <= before {
            interrupt(step)
            return .again(.conflict)
        }
        guard offset == count, style == .tus else { return .proceed }
        lanes[index].isDone = true
        if shape == .sequence { isFinished = true }
        return isFinished ? .finished : .proceed
    }
}
