import type { Server } from 'node:http';
import AjvCompiler from '@fastify/ajv-compiler';
import SerializerSelector from '@fastify/fast-json-stringify-compiler';
import { newId } from '@tributary/core';
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { MAX_BODY_BYTES } from '../request-body/request-body.ts';
import { DOCUMENTED } from '../resources/schemas.ts';
import { clientAddress, type IsTrustedProxy, trustedProxies } from './client-address.ts';
import { boundConnections } from './connection-limit.ts';
import { parseForwardedAddress } from './ip-address.ts';
import { answerUnreadable, answerUnroutable } from './unreadable-requests.ts';

export interface ServerOptions {
  /** Proxies whose `X-Forwarded-For` is believed: addresses or ranges, or how many there are in a row. Default none. */
  readonly trustProxy?: readonly string[] | number;
  /** How long a client may take to send a request, ms. Default 30,000. */
  readonly requestTimeoutMs?: number;
  /** And its headers, ms; never longer than the request. Default 10,000. */
  readonly headersTimeoutMs?: number;
  /** How long a connection may be idle between two requests, ms. Default 72,000: longer than load balancers keep one. */
  readonly keepAliveTimeoutMs?: number;
  /** Connections at once, divided fairly between addresses; one more is closed as it comes. Default any number. */
  readonly maxConnections?: number;
  /** For how long browsers are told to come by HTTPS alone, s. Default: they are told nothing. */
  readonly hstsSeconds?: number;
  /** Compiles the schemas of every route before the first request, so that one that cannot be compiled fails it. Default: as requests need them. */
  readonly compilesAtStart?: boolean;
}

/** Bytes of a request's headers. */
const MAX_HEADER_BYTES = 16 * 1024;

/** How often connections are looked at for what they may take, at most, ms. */
const CHECK_EVERY_MS = 1_000;

/** How often it is looked which connections are idle while the server closes, ms. */
const CLOSING_LOOK_MS = 100;

/** Of every answer: it is what it says it is, and nobody on the way keeps it. */
const FIXED_HEADERS = { 'x-content-type-options': 'nosniff', 'cache-control': 'no-store' } as const;

/** A Fastify instance as the gateway needs it: strict validation, request ids, limits, no library wording. */
export function createServer(options: ServerOptions = {}): FastifyInstance {
  const { requestTimeoutMs = 30_000, headersTimeoutMs = 10_000, keepAliveTimeoutMs = 72_000 } = options;
  const isTrusted = trustedProxies(options.trustProxy ?? []);
  const app = Fastify({
    trustProxy: hasProxies(options) && believed(isTrusted),
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
    // Fastify would write a sentence about each of what may be half a million faults; our own words are `validation.ts`.
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
    connections?.answering(reply.raw);
    done();
  });
  app.register(closeSoon);
  return app;
}

/**
 * A client that closes its writing side after a whole request reads the answer, and those of requests it pipelined
 * before; then the connection ends. Where the request is not whole Node refuses it as before, and an idle connection ends
 * with its client's side. Node's types do not name the setting.
 */
function answerHalfClosed(server: Server): void {
  Object.assign(server, { httpAllowHalfOpen: true });
}

declare module 'fastify' {
  interface FastifyInstance {
    /** From now on each answer ends its connection, e.g. as the server is about to close. */
    endConnections(): void;
  }
}

/**
 * Once the server closes, connections end with what is under way on them: one that a client keeps, and sends nothing more
 * on, would hold the close up for as long as it may be kept.
 */
const closeSoon = fastifyPlugin(async (app) => {
  let looking: NodeJS.Timeout | undefined;
  let ending = false;
  app.decorate('endConnections', () => {
    ending = true;
  });
  app.addHook('preClose', (done) => {
    ending = true;
    looking = setInterval(() => app.server.closeIdleConnections(), CLOSING_LOOK_MS).unref();
    done();
  });
  app.addHook('onSend', (_request, reply, payload, done) => {
    if (ending) reply.header('connection', 'close');
    done(null, payload);
  });
  app.addHook('onClose', async () => clearInterval(looking));
});

function hasProxies({ trustProxy = [] }: ServerOptions): boolean {
  return typeof trustProxy === 'number' || trustProxy.length > 0;
}

/** For what Fastify reads of `X-Forwarded-Proto` and `X-Forwarded-Host`. */
function believed(isTrusted: IsTrustedProxy) {
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
 * Fastify's own compilers, asked for a schema when a request first needs it. To compile those of all routes takes a
 * third of the processor time of a start, and most processes never serve most routes. `test/gateway/openapi.spec.ts`
 * compiles every one: a schema that cannot be compiled is found there, no longer by the start.
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

/** Fastify reads the errors of a validator from the function that it called. */
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
