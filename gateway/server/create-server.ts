import type { IncomingMessage, Server } from 'node:http';
import AjvCompiler from '@fastify/ajv-compiler';
import SerializerSelector from '@fastify/fast-json-stringify-compiler';
import { newId } from '@tributary/core';
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { answerError, type ErrorDetail, invalidRequest } from '../errors/api-error.ts';
import { MAX_BODY_BYTES } from '../request-body/request-body.ts';
import { DOCUMENTED } from '../resources/documented.ts';
import { clientAddress, type IsTrustedProxy, trustedProxies } from './client-address.ts';
import { boundConnections } from './connection-limit.ts';
import { parseForwardedAddress } from './ip-address.ts';
import { answerUnreadable, answerUnroutable } from './unreadable-requests.ts';

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
    // Fastify would format each of up to half a million findings; `errors/validation.ts` formats the first of them.
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
 * What a proxy in front may have read differently from Node, so that the bytes behind the request could belong to another
 * one: chunks in HTTP/1.0, and several `Host` headers.
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
