// An OpenID provider on loopback for slow tests: everybody is logged in at once as the cookie `account` says, and
// consents to everything. Access tokens are JSON Web Tokens for one resource; refresh tokens rotate.
// Usage: node identity_provider.mjs PATH_OF_OIDC_PROVIDER; it prints its port.

import { generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import { pathToFileURL } from "node:url";

const { Provider } = await import(pathToFileURL(process.argv[2]).href);
const SCOPES = "tools admin";

function makeKey(kid) {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  return { ...privateKey.export({ format: "jwk" }), kid, alg: "ES256", use: "sig" };
}

function buildProvider(issuer) {
  return new Provider(issuer, {
    jwks: { keys: [makeKey("first")] },
    scopes: ["openid", "offline_access", ...SCOPES.split(" ")],
    cookies: { keys: ["a key for tests"] },
    clientDefaults: { id_token_signed_response_alg: "ES256" },
    pkce: { required: () => true },
    rotateRefreshToken: true,
    issueRefreshToken: async () => true,
    findAccount: async (_ctx, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
    interactions: { url: (_ctx, interaction) => `/interaction/${interaction.uid}` },
    features: {
      devInteractions: { enabled: false },
      registration: { enabled: true },
      revocation: { enabled: true },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: async () => true,
        getResourceServerInfo: async (_ctx, resource) => ({
          scope: SCOPES,
          audience: resource,
          accessTokenFormat: "jwt",
          accessTokenTTL: 300,
          jwt: { sign: { alg: "ES256" } },
        }),
      },
    },
  });
}

async function answerInteraction(provider, request, response) {
  const { prompt, params, session } = await provider.interactionDetails(request, response);
  const account = /(?:^|;\s*)account=([a-z]+)/.exec(request.headers.cookie ?? "")?.[1] ?? "nobody";
  const options = { mergeWithLastSubmission: true };
  if (prompt.name === "login") {
    await provider.interactionFinished(request, response, { login: { accountId: account } }, options);
    return;
  }
  const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  grant.addOIDCScope(`openid offline_access ${SCOPES}`);
  for (const resource of [params.resource].flat().filter(Boolean)) {
    grant.addResourceScope(resource, params.scope ?? "");
  }
  const grantId = await grant.save();
  await provider.interactionFinished(request, response, { consent: { grantId } }, options);
}

let handle;
const server = createServer((request, response) => handle(request, response));
server.listen(0, "127.0.0.1", () => {
  const { port } = server.address();
  const provider = buildProvider(`http://127.0.0.1:${port}`);
  provider.on("server_error", (_ctx, error) => console.error(error));
  const standard = provider.callback();
  handle = (request, response) => {
    if (!request.url.startsWith("/interaction/")) {
      standard(request, response);
      return;
    }
    answerInteraction(provider, request, response).catch((error) => {
      console.error(error);
      response.statusCode = 500;
      response.end(String(error));
    });
  };
  console.log(String(port));
});
