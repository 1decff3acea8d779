public import ResponseCache

extension CentralRequestManager.Cache {
    /// Explains what the cache would do with an entity's request now, and why; see ``explain(_:cache:)``.
    ///
    /// - Throws: ``NetworkError`` when the store fails, or the request cannot be composed.
    public func explain(_ entity: some EntityRequest) async throws -> CacheExplanation {
        let manager = try requireManager()
        let plan = try entity.call.plan()
        let call = try manager.call(plan)
        let source: CacheExplanation.PolicySource =
            plan.options.cachePolicy != nil ? .call : call.request.cachePolicy != nil ? .row : .manager
        return try await manager.explain(call, from: source)
    }
}
