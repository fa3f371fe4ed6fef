import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import AjvCompiler from '@fastify/ajv-compiler';
import SerializerSelector from '@fastify/fast-json-stringify-compiler';
import { FairBudget, newId } from '@tributary/core';
import type {
  FastifyError,
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  FastifyServerOptions,
} from 'fastify';
import Fastify from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import {
  ApiError,
  answerError,
  type ErrorDetail,
  errorBody,
  invalidRequest,
  methodNotAllowed,
  notFound,
} from '../errors/api-error.ts';
import { MAX_BODY_BYTES } from '../request-body/request-body.ts';
import {
  clientAddress,
  type IsTrustedProxy,
  ownersByAddress,
  parseForwardedAddress,
  parseIpAddress,
  trustedProxies,
} from './addresses.ts';

/** Holds keywords for the OpenAPI document that validators ignore: they describe checks of the code. */
export const DOCUMENTED = 'x-documented';

export interface ServerOptions {
  /** Proxies whose `X-Forwarded-For` is trusted: addresses or ranges, or a number of hops. Default: none. */
  readonly trustProxy?: readonly string[] | number;
  /** How long a client may take to send a request, ms. Default 30,000. */
  readonly requestTimeoutMs?: number;
  /** How long a client may take to send the headers, ms; at most `requestTimeoutMs`. Default 10,000. */
  readonly headersTimeoutMs?: number;
  /** How long a connection may be idle between two requests, ms. Default 72,000: longer than load balancers use one. */
  readonly keepAliveTimeoutMs?: number;
  /** Connections, divided fairly between addresses; further ones are closed. Default: unlimited. */
  readonly maxConnections?: number;
  /** `max-age` of `Strict-Transport-Security`, s. Default: the header is not sent. */
  readonly hstsSeconds?: number;
  /** Compiles all schemas at the start, so that a broken one fails it. Default: each on its first use. */
  readonly compilesAtStart?: boolean;
}

/** Bytes of a request's headers, at most. */
const MAX_HEADER_BYTES = 16 * 1024;

/** The interval in which the timeouts of connections are checked, at most, ms. */
const CHECK_EVERY_MS = 1_000;

/** The interval in which idle connections are closed while the server closes, ms. */
const CLOSE_IDLE_EVERY_MS = 100;

/** Headers of every response: no content sniffing, no caching. */
const FIXED_HEADERS = { 'x-content-type-options': 'nosniff', 'cache-control': 'no-store' } as const;

/** A Fastify instance with strict validation, request ids, limits, and the gateway's own error messages. */
export function createServer(options: ServerOptions = {}): FastifyInstance {
  const { requestTimeoutMs = 30_000, headersTimeoutMs = 10_000, keepAliveTimeoutMs = 72_000 } = options;
  const isTrusted = trustedProxies(options.trustProxy ?? []);
  const app = Fastify({
    trustProxy: hasProxies(options) && trustOf(isTrusted),
    logger: false,
    bodyLimit: MAX_BODY_BYTES,
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: keepAliveTimeoutMs,
    http: {
      headersTimeout: Math.min(headersTimeoutMs, requestTimeoutMs),
      connectionsCheckingInterval: Math.min(CHECK_EVERY_MS, headersTimeoutMs),
      maxHeaderSize: MAX_HEADER_BYTES,
    },
    genReqId: () => newId(),
    requestIdHeader: false,
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    frameworkErrors: answerUnroutable,
    clientErrorHandler: answerUnreadable,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 200 },
    // Fastify would format each of up to half a million findings; `errors/error-handler.ts` formats the first of them.
    schemaErrorFormatter: () => new Error('the request does not match its schema'),
    schemaController: options.compilesAtStart ? {} : compileOnFirstUse(),
    ajv: {
      customOptions: {
        coerceTypes: false,
        removeAdditional: false,
        useDefaults: false,
        allErrors: true,
        allowUnionTypes: true,
        keywords: [DOCUMENTED],
      },
    },
  });
  answerHalfClosed(app.server);
  const connections =
    options.maxConnections === undefined ? undefined : boundConnections(app.server, options.maxConnections);
  app.decorateRequest('clientAddress', {
    getter() {
      return clientAddress(this.raw, isTrusted);
    },
  });
  const headers: Readonly<Record<string, string>> = {
    ...FIXED_HEADERS,
    ...(options.hstsSeconds === undefined
      ? {}
      : { 'strict-transport-security': `max-age=${options.hstsSeconds}` }),
  };
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id).headers(headers);
    connections?.onRequest(reply.raw);
    const fault = framingFault(request.raw);
    if (fault === undefined) return done();
    reply.header('connection', 'close');
    answerError(reply, invalidRequest(fault));
  });
  app.register(closeSoon);
  return app;
}

/**
 * The fault of a request that a proxy in front may have read differently from Node, so that the bytes behind it could belong
 * to another one: chunks in HTTP/1.0, and several `Host` headers.
 */
function framingFault({ httpVersion, headers, rawHeaders }: IncomingMessage): ErrorDetail | undefined {
  if (httpVersion === '1.0' && headers['transfer-encoding'] !== undefined)
    return { path: 'Transfer-Encoding', message: 'is not possible in HTTP/1.0' };
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) if (isHost(rawHeaders[at])) hosts += 1;
  return hosts > 1 ? { path: 'Host', message: 'is sent more than once' } : undefined;
}

/** By the length first: this is asked of every header of every request. */
function isHost(name: string | undefined): boolean {
  return name?.length === 4 && name.toLowerCase() === 'host';
}

/**
 * Lets a client that closes its writing side after a complete request read the response, and those of requests that it
 * pipelined before. Incomplete requests are refused and idle connections end, as without the setting, which Node's types
 * do not declare.
 */
function answerHalfClosed(server: Server): void {
  Object.assign(server, { httpAllowHalfOpen: true });
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Makes each further response close its connection, before the server closes. */
    endConnections(): void;
  }
}

/**
 * Once the server closes, connections end with their current response: an idle one that its client keeps open would
 * delay the close until its timeout.
 */
const closeSoon = fastifyPlugin(async (app) => {
  let closingIdle: NodeJS.Timeout | undefined;
  let ending = false;
  app.decorate('endConnections', () => {
    ending = true;
  });
  app.addHook('preClose', (done) => {
    ending = true;
    closingIdle = setInterval(() => app.server.closeIdleConnections(), CLOSE_IDLE_EVERY_MS).unref();
    done();
  });
  app.addHook('onSend', (_request, reply, payload, done) => {
    if (ending) reply.header('connection', 'close');
    done(null, payload);
  });
  app.addHook('onClose', async () => clearInterval(closingIdle));
});

function hasProxies({ trustProxy = [] }: ServerOptions): boolean {
  return typeof trustProxy === 'number' || trustProxy.length > 0;
}

/** The trust function for `X-Forwarded-Proto` and `X-Forwarded-Host`, which Fastify reads. */
function trustOf(isTrusted: IsTrustedProxy) {
  return (text: string, hop: number) => {
    const address = parseForwardedAddress(text);
    return address !== undefined && isTrusted(address, hop);
  };
}

type SchemaController = NonNullable<FastifyServerOptions['schemaController']>;
type CompileValidator = ReturnType<AjvCompiler.BuildCompilerFromPool>;
type Validator = ReturnType<CompileValidator>;
type CompileSerializer = ReturnType<SerializerSelector.SerializerFactory>;

/**
 * Compiles each schema when a request first needs it, by Fastify's own compilers. Compiling all of them takes a third of
 * the processor time of a start, and most processes never serve most routes. `test/gateway/api/openapi.spec.ts` compiles all
 * schemas, so a broken one is found there.
 */
function compileOnFirstUse(): SchemaController {
  const [validators, serializers] = [AjvCompiler(), SerializerSelector()];
  return {
    compilersFactory: {
      buildValidator: (...args: Parameters<typeof validators>) => lateValidators(validators(...args)),
      buildSerializer: (...args: Parameters<typeof serializers>) => lateSerializers(serializers(...args)),
    },
  };
}

/** Fastify reads validation errors from the function that it called. */
function lateValidators(compile: CompileValidator): CompileValidator {
  return (route) => {
    let validate: Validator | undefined;
    const late: Pick<Validator, 'errors'> & ((data: unknown) => unknown) = (data) => {
      validate ??= compile(route);
      const isValid = validate(data);
      late.errors = validate.errors ?? null;
      return isValid;
    };
    return late as Validator;
  };
}

function lateSerializers(compile: CompileSerializer): CompileSerializer {
  return (route) => {
    let serialize: ReturnType<CompileSerializer> | undefined;
    return (document: unknown) => {
      serialize ??= compile(route);
      return serialize(document);
    };
  };
}

interface BoundConnections {
  /** Records the latest response of a connection, which shows whether a request is being processed. */
  onRequest(response: ServerResponse): void;
}

/**
 * Bounds the connections of a server, divided fairly between client addresses. One address may have all of them, as it
 * may be a proxy. When an address below its share connects, the oldest connection of the other is closed that is idle,
 * still sends its request, or does not read its response. A connection whose request is being processed is never closed;
 * a further connection of an address at its share is closed immediately.
 */
function boundConnections(server: Server, maxConnections: number): BoundConnections {
  const budget = new FairBudget({ capacity: maxConnections, largestShare: 1 });
  const latest = new WeakMap<Socket, ServerResponse>();

  function isProcessing(socket: Socket): boolean {
    const response = latest.get(socket);
    return response?.req.complete === true && !response.writableEnded;
  }

  server.on('connection', (socket: Socket) => {
    // A socket without an address has been closed by the client.
    const address = parseIpAddress(socket.remoteAddress ?? '');
    const permit =
      address &&
      budget.open(ownersByAddress(address), {
        mayEnd: () => !isProcessing(socket),
        onEnded: () => socket.destroy(),
      });
    if (permit?.resize(1) === true) socket.once('close', permit.release);
    else socket.destroy();
  });
  return {
    onRequest(response) {
      if (response.socket !== null) latest.set(response.socket, response);
    },
  };
}

/** Refuses a request whose path cannot be routed. No hook has run for it. */
function answerUnroutable(error: FastifyError, request: FastifyRequest, reply: FastifyReply): void {
  reply.header('x-request-id', request.id);
  const malformed = error.code === 'FST_ERR_BAD_URL';
  answerError(
    reply,
    malformed ? invalidRequest({ path: '', message: 'the path is not a valid URL' }) : notFound(),
  );
}

/** How long a client may take to read the response, ms. */
const LINGER_MS = 1_000;

/** Connections whose refusal waits for earlier responses. */
const refusing = new WeakSet<Socket>();

/**
 * Answers a request that cannot be parsed: no HTTP, too large headers, or a timeout. The connection ends with it, as the
 * start of the next request is unknown, but with a delay: closed while the client still sends, it would be reset, and the
 * client could not read the response. Complete requests that were pipelined before are answered first, in order.
 */
function answerUnreadable(error: NodeJS.ErrnoException, socket: Socket): void {
  if (socket.destroyed || socket.writableEnded) return; // the connection is already ending
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy(error);
    return;
  }
  const before = responseOn(socket);
  if (before?.req.complete === true) {
    if (refusing.has(socket)) return;
    refusing.add(socket);
    before.once('close', () => {
      refusing.delete(socket);
      answerUnreadable(error, socket);
    });
    return;
  }
  socket.end(responseTo(error));
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
}

/** The response in progress, of the first of pipelined requests; not declared by Node's types. */
function responseOn(socket: Socket & { readonly _httpMessage?: ServerResponse | null }) {
  return socket._httpMessage ?? undefined;
}

function responseTo({ code }: NodeJS.ErrnoException): string {
  const refusal = refusalOf(code);
  const body = JSON.stringify(errorBody(refusal));
  return [
    `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${newId()}`,
    'connection: close',
    '',
    body,
  ].join('\r\n');
}

function refusalOf(code: string | undefined): ApiError {
  switch (code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new ApiError(408, 'request timeout');
    case 'HPE_HEADER_OVERFLOW':
      return invalidRequest({ path: '', message: 'the headers are too large' });
    default:
      return invalidRequest({ path: '', message: 'is not valid HTTP' });
  }
}

/**
 * Answers requests without a route: 405 with `Allow` for a path that has other methods, else 404. The body is not read,
 * so its faults are not reported.
 */
export const unknownPathsPlugin = fastifyPlugin(async (app) => {
  const allowed = new AllowedMethods();

  function refuse(request: FastifyRequest, reply: FastifyReply): FastifyReply {
    const methods = allowed.of(request.url);
    if (methods.length === 0) return answerError(reply, notFound());
    return answerError(reply.header('allow', methods.join(', ')), methodNotAllowed());
  }

  app.addHook('onRoute', ({ url, method }) => allowed.add(url, method));
  // In a scope of its own, so that the hook is not run for requests that have a route.
  await app.register(async (scope) => {
    scope.addHook('onRequest', async (request, reply) => refuse(request, reply));
    scope.setNotFoundHandler(refuse);
  });
});

export class AllowedMethods {
  readonly #routes: {
    readonly path: RegExp;
    readonly parameters: number;
    readonly methods: readonly string[];
  }[] = [];

  /** `url`: a route pattern with `:parameters`. Patterns with a `*` match any path and are ignored. */
  add(url: string, methods: string | readonly string[]): void {
    if (url.includes('*')) return;
    const segments = url
      .split('/')
      .map((segment) => (segment.startsWith(':') ? '[^/]+' : segment.replaceAll(/[^\w-]/g, '\\$&')));
    const parameters = url.split(':').length - 1;
    this.#routes.push({
      path: new RegExp(`^${segments.join('/')}/?$`),
      parameters,
      methods: [methods].flat(),
    });
  }

  /** The methods of a URL's path, sorted; none for an unknown path. Of several patterns that with the fewest parameters counts. */
  of(url: string): readonly string[] {
    const [path = ''] = url.split('?', 1);
    const matching = this.#routes.filter((route) => route.path.test(path));
    const fewest = Math.min(...matching.map(({ parameters }) => parameters));
    const methods = matching
      .filter(({ parameters }) => parameters === fewest)
      .flatMap((route) => route.methods);
    return [...new Set(methods)].sort();
  }
}
