import AjvCompiler from '@fastify/ajv-compiler';
import SerializerSelector from '@fastify/fast-json-stringify-compiler';
import type { FastifyServerOptions } from 'fastify';

type SchemaController = NonNullable<FastifyServerOptions['schemaController']>;
type CompileValidator = ReturnType<AjvCompiler.BuildCompilerFromPool>;
type Validator = ReturnType<CompileValidator>;
type CompileSerializer = ReturnType<SerializerSelector.SerializerFactory>;

/**
 * Fastify's own compilers, asked for a schema when a request first needs it. To compile those of all routes takes a
 * third of the processor time of a start, and most processes never serve most routes. `test/gateway/api/openapi.spec.ts`
 * compiles every one: a schema that cannot be compiled is found there, no longer by the start.
 */
export function compileOnFirstUse(): SchemaController {
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
