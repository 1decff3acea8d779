import Foundation
import LATNetworking
import LATTesting
import Snippets
import Testing

@testable import lat

/// The samples of Documentation/Recipes.md do what they are meant to do, against a server of this process.
@Suite struct RecipeTests {
    @Test(.timeLimit(.minutes(1)), arguments: recipes)
    func recipeSucceeds(_ recipe: Recipe) async throws {
        let server = try RecipeServer()
        let folder = try TemporaryDirectory()
        var configuration = CentralRequestManager.Configuration()
        configuration.proxy = .direct
        configuration.cacheStorage = .memory
        try await recipe.run(CentralRequestManager(configuration: configuration), server.url, folder.path)
    }

    @Test func fileOfRequestsPasses() async throws {
        let root = URL(filePath: #filePath).appending(path: "../../..").standardizedFileURL
        let page = try MarkdownPage(path: "Documentation/Recipes.md", root: root)
        let text = try #require(page.blocks.first { $0.language == "text" && $0.text.contains("###") }).text
        let server = try RecipeServer()
        let folder = try TemporaryDirectory()
        let file = try folder.write(
            Data(text.replacing("http://127.0.0.1:8080", with: server.url).utf8), to: "api.http")
        #expect(await Lat.run(["run", file], .standard) == .success)
        #expect(server.server.requests.map(\.path) == ["/login", "/private"])
    }
}
