import '@mantine/core/styles.css';
import '@mantine/notifications/styles.css';
import '@mantine/spotlight/styles.css';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { App } from './app.tsx';
import { startSession } from './session/start.ts';

const element = document.getElementById('root');
if (element === null) throw new Error('index.html has no element #root');
createRoot(element).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
void startSession();
