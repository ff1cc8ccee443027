// The OpenID provider of the tests: one client that logs in terminals, any user, keys that a request replaces.
import http from "node:http";
import { createRequire } from "node:module";
import { generateKeyPairSync, randomUUID } from "node:crypto";

const { Provider } = createRequire(process.argv[2] + "/")("oidc-provider");
const groups = { alice: ["ml-admins", "readers"], eve: [] };

function newKeys() {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  return { keys: [{ ...privateKey.export({ format: "jwk" }), use: "sig", alg: "RS256", kid: randomUUID() }] };
}

function make(issuer) {
  const provider = new Provider(issuer, {
    jwks: newKeys(),
    clients: [{
      client_id: "gangline",
      token_endpoint_auth_method: "none",
      application_type: "native",
      grant_types: ["urn:ietf:params:oauth:grant-type:device_code", "refresh_token"],
      redirect_uris: [],
      response_types: [],
    }],
    claims: { openid: ["sub"], email: ["email", "email_verified"], groups: ["groups"] },
    scopes: ["openid", "offline_access", "email", "groups"],
    conformIdTokenClaims: false,
    cookies: { keys: ["a secret of the tests"] },
    features: { deviceFlow: { enabled: true }, devInteractions: { enabled: true } },
    findAccount: (context, id) => ({
      accountId: id,
      claims: () => ({ sub: id, email: `${id}@example.org`, email_verified: true, groups: groups[id] ?? [] }),
    }),
  });
  return provider.callback();
}

let answer = null;
const server = http.createServer((request, response) => {
  if (request.url === "/rotate") {
    answer = make(issuer);
    response.end("rotated");
  } else {
    answer(request, response);
  }
});
let issuer = "";
server.listen(0, "127.0.0.1", () => {
  issuer = `http://127.0.0.1:${server.address().port}`;
  answer = make(issuer);
  console.log(issuer);
});
