import swaggerUi from '@fastify/swagger-ui';
import fastifyPlugin from 'fastify-plugin';

/** Where people read the description. */
export const REFERENCE_PATH = '/docs';

/** `GET /docs`: the description to read and to try, with all that the page needs: it asks no other server for anything. */
export const referencePage = fastifyPlugin(async (app) => {
  await app.register(swaggerUi, {
    routePrefix: REFERENCE_PATH,
    theme: { title: 'Tributary: the API' },
    uiConfig: {
      layout: 'BaseLayout',
      validatorUrl: null,
      deepLinking: true,
      docExpansion: 'none',
      displayOperationId: true,
      persistAuthorization: false,
      tryItOutEnabled: false,
    },
    staticCSP: {
      'default-src': "'none'",
      'script-src': "'self'",
      'style-src': "'self' 'unsafe-inline'",
      'img-src': "'self' data:",
      'font-src': "'self'",
      'connect-src': "'self'",
      'base-uri': "'none'",
      'form-action': "'none'",
      'frame-ancestors': "'none'",
    },
  });
});
