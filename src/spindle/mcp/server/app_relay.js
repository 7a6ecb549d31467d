// Runs around the page of an MCP App: relays its messages to the host, limited to the app's own server.
//
// The page runs in a sandboxed frame of its own. Hosts ignore messages of frames that they did not create, so every
// request of the app passes here. The names and URIs of the app's server are mapped to those of the gateway and back.
(reach => {
  "use strict";
  const frame = document.createElement("iframe");
  const pending = new Map();
  const isObject = value => typeof value === "object" && value !== null && !Array.isArray(value);
  const own = (table, name) => typeof name === "string" && Object.hasOwn(table, name) ? table[name] : undefined;
  const invert = table => Object.fromEntries(Object.entries(table).map(([name, wire]) => [wire, name]));
  const toolNames = invert(reach.tools), promptNames = invert(reach.prompts);

  // --- URIs

  const toGateway = uri => {
    if (typeof uri !== "string") return undefined;
    if (reach.prefixes) return uri.startsWith("ui://") ? reach.prefixes.ui + uri.slice(5) : reach.prefixes.other + uri;
    return reach.uris.includes(uri) || reach.starts.some(start => uri.startsWith(start)) ? uri : undefined;
  };
  const toApp = uri => {
    if (typeof uri !== "string") return undefined;
    if (!reach.prefixes) return toGateway(uri);
    if (uri.startsWith(reach.prefixes.ui)) return "ui://" + uri.slice(reach.prefixes.ui.length);
    return uri.startsWith(reach.prefixes.other) ? uri.slice(reach.prefixes.other.length) : undefined;
  };

  // --- what the app asks

  const withName = table => params => {
    const name = own(table, params.name);
    return name === undefined ? undefined : { ...params, name };
  };
  const withUri = params => {
    const uri = toGateway(params.uri);
    return uri === undefined ? undefined : { ...params, uri };
  };
  const withReference = params => {
    const ref = isObject(params.ref) ? params.ref : {};
    const change = ref.type === "ref/prompt" ? withName(reach.prompts) : withUri;
    const mapped = change(ref);
    return mapped === undefined ? undefined : { ...params, ref: mapped };
  };
  const requests = {
    "tools/call": withName(reach.tools),
    "prompts/get": withName(reach.prompts),
    "completion/complete": withReference,
    "resources/read": withUri,
    "resources/subscribe": withUri,
    "resources/unsubscribe": withUri,
    "tools/list": params => params,
    "prompts/list": params => params,
    "resources/list": params => params,
    "resources/templates/list": params => params,
  };
  const passes = method => /^(ui|notifications)\//.test(method) || method === "ping";
  const refuse = (id, method) => {
    if (id === undefined) return;
    const message = `An app can use only what its own server ${reach.server} offers; ${method} was not sent.`;
    frame.contentWindow.postMessage({ jsonrpc: "2.0", id, error: { code: -32602, message } }, "*");
  };
  const fromApp = message => {
    if (typeof message.method !== "string" || passes(message.method)) return message;
    const change = own(requests, message.method);
    const params = change && change(isObject(message.params) ? message.params : {});
    if (params === undefined) return void refuse(message.id, message.method);
    if (message.id !== undefined) pending.set(message.id, message.method);
    return { ...message, params };
  };

  // --- what the host answers

  const keep = (list, change) => (Array.isArray(list) ? list : []).map(change).filter(each => each !== undefined);
  const named = names => each => {
    const name = isObject(each) ? own(names, each.name) : undefined;
    return name === undefined ? undefined : { ...each, name };
  };
  const located = key => each => {
    const uri = isObject(each) ? toApp(each[key]) : undefined;
    return uri === undefined ? undefined : { ...each, [key]: uri };
  };
  const inBlock = block => {
    if (!isObject(block)) return block;
    if (block.type === "resource_link") return { ...block, uri: toApp(block.uri) ?? block.uri };
    if (block.type === "resource" && isObject(block.resource))
      return { ...block, resource: { ...block.resource, uri: toApp(block.resource.uri) ?? block.resource.uri } };
    return block;
  };
  const inResult = result => Array.isArray(result?.content) ? { ...result, content: result.content.map(inBlock) } : result;
  const answers = {
    "tools/call": inResult,
    "tools/list": result => ({ ...result, tools: keep(result.tools, named(toolNames)) }),
    "prompts/list": result => ({ ...result, prompts: keep(result.prompts, named(promptNames)) }),
    "resources/list": result => ({ ...result, resources: keep(result.resources, located("uri")) }),
    "resources/templates/list": result =>
      ({ ...result, resourceTemplates: keep(result.resourceTemplates, located("uriTemplate")) }),
    "resources/read": result => ({ ...result, contents: keep(result.contents, located("uri")) }),
  };
  const inContext = context => {
    const tool = context?.toolInfo?.tool;
    const name = isObject(tool) ? own(toolNames, tool.name) : undefined;
    return name === undefined ? context : { ...context, toolInfo: { ...context.toolInfo, tool: { ...tool, name } } };
  };
  const fromHost = message => {
    if (typeof message.method === "string") {
      if (message.method === "ui/notifications/tool-result") return { ...message, params: inResult(message.params) };
      if (message.method === "ui/notifications/host-context-changed")
        return { ...message, params: inContext(message.params) };
      if (message.method === "notifications/resources/updated") {
        const params = located("uri")(message.params);
        return params && { ...message, params };
      }
      return message;
    }
    const method = pending.get(message.id);
    pending.delete(message.id);
    if (!isObject(message.result)) return message;
    const change = method === undefined ? undefined : own(answers, method);
    if (change) return { ...message, result: change(message.result) };
    return isObject(message.result.hostContext)
      ? { ...message, result: { ...message.result, hostContext: inContext(message.result.hostContext) } }
      : message;
  };

  addEventListener("message", event => {
    const message = event.data;
    if (!isObject(message) || message.jsonrpc !== "2.0") return;
    if (event.source === frame.contentWindow) {
      const sent = fromApp(message);
      if (sent) parent.postMessage(sent, "*");
    } else if (event.source === parent) {
      const received = fromHost(message);
      if (received) frame.contentWindow.postMessage(received, "*");
    }
  });
  frame.setAttribute("sandbox", "allow-scripts allow-forms allow-modals allow-downloads allow-popups");
  frame.setAttribute("allow", "camera *; microphone *; geolocation *; clipboard-write *");
  frame.title = reach.title;
  frame.srcdoc = reach.page;
  document.body.append(frame);
})
