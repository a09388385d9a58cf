// Solves challenges beside the page.
import { searcher } from '../../clients/typescript/challenge/search.js';
import { serve } from '../../clients/typescript/challenge/serve.js';

serve(searcher, self as unknown as Parameters<typeof serve>[1]);
